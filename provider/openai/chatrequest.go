package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
)

// CheckTools implements [llm.ToolChecker].
func (c *Chat) CheckTools(tools []llm.ToolDef) error {
	if _, err := c.tools(tools); err != nil {
		return wire.Invalid(c.name, "%w", err)
	}
	return nil
}

// params is a request in the SDK's terms.
func (c *Chat) params(r llm.Request) (p openai.ChatCompletionNewParams, err error) {
	p.Model = c.options.Model
	if p.Messages, err = c.messages(r); err != nil {
		return p, err
	}
	if p.Tools, err = c.tools(r.Tools); err != nil {
		return p, err
	}
	if p.ToolChoice, err = toolChoice(r); err != nil {
		return p, err
	}
	if len(r.Tools) > 0 && c.options.Sequential {
		p.ParallelToolCalls = openai.Bool(false)
	}
	if err := c.format(&p, r.ResponseFormat); err != nil {
		return p, err
	}
	switch n := r.Limits.OutputTokens; {
	case n < 0:
		return p, fmt.Errorf("Limits.OutputTokens is negative: %d", n)
	case n > 0 && c.options.LimitField == "max_tokens":
		p.MaxTokens = openai.Int(int64(n))
	case n > 0:
		p.MaxCompletionTokens = openai.Int(int64(n))
	}
	p.ReasoningEffort = shared.ReasoningEffort(c.options.Effort)
	if err := c.cache(&p, r); err != nil {
		return p, err
	}
	if !c.options.Whole && !c.options.NoStreamOptions {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	if len(c.extra) > 0 {
		p.SetExtraFields(extraFields(c.extra))
	}
	return p, nil
}

func (c *Chat) tools(tools []llm.ToolDef) ([]openai.ChatCompletionToolUnionParam, error) {
	var all []openai.ChatCompletionToolUnionParam
	for _, t := range tools {
		if c.at.own && !names.Fits(t.Name) { // other servers have their own idea of names
			return nil, errName(t.Name)
		}
		schema, err := c.at.parameters(dialect(c.options.Strict), t)
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", t.Name, err)
		}
		f := shared.FunctionDefinitionParam{Name: t.Name, Strict: openai.Bool(c.options.Strict)}
		if t.Description != "" {
			f.Description = openai.String(t.Description)
		}
		// Not f.Parameters: a map would lose the order of the members.
		f.SetExtraFields(map[string]any{"parameters": schema})
		all = append(all, openai.ChatCompletionFunctionTool(f))
	}
	return all, nil
}

func toolChoice(r llm.Request) (choice openai.ChatCompletionToolChoiceOptionUnionParam, err error) {
	mode, name := r.ToolChoice.Mode, r.ToolChoice.Name
	switch {
	case mode == llm.ToolAuto, mode == llm.ToolNone && len(r.Tools) == 0:
	case mode == llm.ToolNone:
		choice.OfAuto = openai.String("none")
	case mode == llm.ToolAny && len(r.Tools) > 0:
		choice.OfAuto = openai.String("required")
	case mode == llm.ToolNamed && slices.ContainsFunc(r.Tools, func(t llm.ToolDef) bool { return t.Name == name }):
		return openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: name}), nil
	case mode == llm.ToolAny, mode == llm.ToolNamed:
		return choice, fmt.Errorf("the tool choice %q %q asks for a call that none of the request's %d tools can answer", mode, name, len(r.Tools))
	default:
		return choice, fmt.Errorf("the tool choice %q is unknown", mode)
	}
	return choice, nil
}

func (c *Chat) format(p *openai.ChatCompletionNewParams, f llm.ResponseFormat) error {
	if len(f.Schema) == 0 {
		return nil
	}
	schema, err := dialect(c.options.Strict).Convert(f.Schema)
	if err != nil {
		return fmt.Errorf("the response format %q: %w", f.Name, err)
	}
	j := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: cmp.Or(f.Name, "response"), Schema: schema, Strict: openai.Bool(c.options.Strict)}
	if f.Description != "" {
		j.Description = openai.String(f.Description)
	}
	p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: j}
	return nil
}

// cache passes a hint on. OpenAI caches by itself; the key brings the requests of a session to where its cache is. There is no way
// to turn the cache off, so that CacheNone asks for nothing.
func (c *Chat) cache(p *openai.ChatCompletionNewParams, r llm.Request) error {
	switch r.Cache {
	case llm.CacheDefault, llm.CacheNone:
		return nil
	case llm.CacheShort, llm.CacheLong:
	default:
		return fmt.Errorf("the cache hint %q is unknown", r.Cache)
	}
	if session := r.Metadata["session"]; session != "" {
		p.PromptCacheKey = openai.String(cacheKey(session))
	}
	if r.Cache == llm.CacheLong && c.at.own { // compatible servers don't know it, and some refuse what they don't know
		p.PromptCacheRetention = openai.ChatCompletionNewParamsPromptCacheRetention24h
	}
	return nil
}

// extraFields are members beside those that the SDK has.
func extraFields(members map[string]json.RawMessage) map[string]any {
	all := map[string]any{}
	for name, value := range members {
		all[name] = value
	}
	return all
}

// raw is a part of a request as its JSON.
func raw[T param.ParamStruct, P param.InferPtr[T]](data json.RawMessage) T {
	return param.Override[T, P](data)
}
