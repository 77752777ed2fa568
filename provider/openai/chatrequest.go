package openai

import (
	"cmp"
	"encoding/json"
	"fmt"

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

// params returns a request in the SDK's terms.
func (c *Chat) params(r llm.Request) (p openai.ChatCompletionNewParams, err error) {
	if err := wire.CheckRequest(r); err != nil {
		return p, err
	}
	p.Model = c.options.Model
	if p.Messages, err = c.messages(r); err != nil {
		return p, err
	}
	if p.Tools, err = c.tools(r.Tools); err != nil {
		return p, err
	}
	p.ToolChoice = toolChoice(r)
	if len(r.Tools) > 0 && c.options.Sequential {
		p.ParallelToolCalls = openai.Bool(false)
	}
	if err := c.format(&p, r.ResponseFormat); err != nil {
		return p, err
	}
	switch n := r.Limits.OutputTokens; {
	case n > 0 && c.options.Chat.LimitField == "max_tokens":
		p.MaxTokens = openai.Int(int64(n))
	case n > 0:
		p.MaxCompletionTokens = openai.Int(int64(n))
	}
	p.ReasoningEffort = shared.ReasoningEffort(c.options.Effort)
	c.cache(&p, r)
	if !c.options.Whole && !c.options.Chat.NoStreamOptions {
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
		if c.at.openai && !names.Fits(t.Name) { // other servers have their own idea of names
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

func toolChoice(r llm.Request) (choice openai.ChatCompletionToolChoiceOptionUnionParam) {
	switch r.ToolChoice.Mode {
	case llm.ToolNone:
		if len(r.Tools) > 0 { // or else the API wants no choice
			choice.OfAuto = openai.String("none")
		}
	case llm.ToolAny:
		choice.OfAuto = openai.String("required")
	case llm.ToolNamed:
		return openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: r.ToolChoice.Name})
	}
	return choice
}

func (c *Chat) format(p *openai.ChatCompletionNewParams, f llm.ResponseFormat) error {
	schema, err := dialect(c.options.Strict).Response(f)
	if schema == nil {
		return err
	}
	j := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: cmp.Or(f.Name, "response"),
		Schema: schema, Strict: openai.Bool(c.options.Strict)}
	if f.Description != "" {
		j.Description = openai.String(f.Description)
	}
	p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: j}
	return nil
}

// cache passes a hint on. OpenAI caches by itself; the key brings the requests
// of a session to where its cache is. There is no way to turn the cache off, so
// that CacheNone asks for nothing. Some compatible servers refuse what they
// don't know.
func (c *Chat) cache(p *openai.ChatCompletionNewParams, r llm.Request) {
	if r.Cache != llm.CacheShort && r.Cache != llm.CacheLong {
		return
	}
	takes := c.options.CacheKey || c.at.openai || c.name == "openai.chat" ||
		wire.InDomain(c.at.base, "moonshot.ai") || wire.InDomain(c.at.base, "moonshot.cn")
	if session := r.Metadata["session"]; session != "" && takes {
		p.PromptCacheKey = openai.String(cacheKey(session))
	}
	if r.Cache == llm.CacheLong && c.at.own {
		p.PromptCacheRetention = openai.ChatCompletionNewParamsPromptCacheRetention24h
	}
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
