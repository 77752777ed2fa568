package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// params returns a request in the API's words.
func (m *Responses) params(req llm.Request, how memory) (responses.ResponseNewParams, error) {
	if err := wire.CheckRequest(req); err != nil {
		return responses.ResponseNewParams{}, wire.Invalid(responsesName, "%w", err)
	}
	p := responses.ResponseNewParams{
		Model: m.options.Model,
		Store: openai.Bool(false),
		Reasoning: shared.ReasoningParam{Effort: shared.ReasoningEffort(m.options.Effort),
			Summary: shared.ReasoningSummary(m.options.Responses.Summary)},
	}
	if !m.options.Responses.NoReasoning {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if req.System != "" {
		p.Instructions = openai.String(req.System)
	}
	if n := req.Limits.OutputTokens; n > 0 {
		p.MaxOutputTokens = openai.Int(int64(n))
	}
	m.cache(&p, req)
	if err := m.tools(&p, req); err != nil {
		return p, err
	}
	if err := m.format(&p, req.ResponseFormat); err != nil {
		return p, err
	}
	items, err := newInput(req.Messages, how)
	p.Input.OfInputItemList = items
	if len(m.extra) > 0 {
		p.SetExtraFields(extraFields(m.extra))
	}
	return p, err
}

// cache passes a hint on. OpenAI caches by itself; the key brings the requests
// of a session to where its cache is. There is no way to turn the cache off
// that every model knows, so that CacheNone asks for nothing. Some compatible
// servers refuse what they don't know.
func (m *Responses) cache(p *responses.ResponseNewParams, req llm.Request) {
	if req.Cache != llm.CacheShort && req.Cache != llm.CacheLong {
		return
	}
	takes := m.options.CacheKey || m.at.openai || m.origin.Name() == responsesName ||
		wire.InDomain(m.at.base, "x.ai")
	if session := req.Metadata["session"]; session != "" && takes {
		p.PromptCacheKey = openai.String(cacheKey(session))
	}
	if req.Cache == llm.CacheLong && m.at.own {
		p.PromptCacheRetention = responses.ResponseNewParamsPromptCacheRetention24h
	}
}

// cacheKey fits a key to the length that the API takes.
func cacheKey(key string) string {
	if len(key) <= 64 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func (m *Responses) tools(p *responses.ResponseNewParams, req llm.Request) error {
	for _, t := range req.Tools {
		tool, err := m.tool(t)
		if err != nil {
			return wire.Invalid(responsesName, "%w", err)
		}
		p.Tools = append(p.Tools, tool)
	}
	if len(req.Tools) == 0 { // the API wants no choice then
		return nil
	}
	switch req.ToolChoice.Mode {
	case llm.ToolNone:
		p.ToolChoice.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptionsNone)
	case llm.ToolAny:
		p.ToolChoice.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptionsRequired)
	case llm.ToolNamed:
		p.ToolChoice.OfFunctionTool = &responses.ToolChoiceFunctionParam{Name: req.ToolChoice.Name}
	}
	if m.options.Sequential {
		// True is the default, and some models don't know the member.
		p.ParallelToolCalls = openai.Bool(false)
	}
	return nil
}

// function is a tool on the wire. The SDK's own form has the schema as a map,
// which loses the order of its members.
type function struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// tool describes a tool, closed where the options want it.
func (m *Responses) tool(t llm.ToolDef) (responses.ToolUnionParam, error) {
	if !names.Fits(t.Name) {
		return responses.ToolUnionParam{}, errName(t.Name)
	}
	schema, err := m.at.parameters(dialect(m.options.Strict), t)
	if err != nil {
		return responses.ToolUnionParam{}, fmt.Errorf("tool %q: %w", t.Name, err)
	}
	raw, err := wire.Encode(function{"function", t.Name, t.Description, schema, m.options.Strict})
	return param.Override[responses.ToolUnionParam](raw), err
}

// format is likewise the schema of the model's text.
type format struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	Strict      bool            `json:"strict"`
}

func (m *Responses) format(p *responses.ResponseNewParams, f llm.ResponseFormat) error {
	schema, err := dialect(m.options.Strict).Response(f)
	if err != nil {
		return wire.Invalid(responsesName, "%w", err)
	}
	if schema == nil {
		return nil
	}
	raw, err := wire.Encode(format{"json_schema", cmp.Or(f.Name, "response"), f.Description, schema,
		m.options.Strict})
	p.Text.Format = param.Override[responses.ResponseFormatTextConfigUnionParam](raw)
	return err
}

// CheckTools implements [llm.ToolChecker].
func (m *Responses) CheckTools(tools []llm.ToolDef) error {
	for _, t := range tools {
		if _, err := m.tool(t); err != nil {
			return wire.Invalid(responsesName, "%w", err)
		}
	}
	return nil
}
