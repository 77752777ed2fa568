package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// params puts a request in the API's form.
func (m *Model) params(req llm.Request) (p sdk.MessageNewParams, err error) {
	if err := wire.CheckRequest(req, m.options.serverNames()...); err != nil {
		return p, invalid("%w", err)
	}
	p.Model = m.options.Model
	p.MaxTokens = int64(m.options.MaxTokens)
	if n := req.Limits.OutputTokens; n != 0 {
		p.MaxTokens = int64(n)
	}
	if !isBlank(req.System) {
		p.System = []sdk.TextBlockParam{{Text: req.System}}
	}
	turns, err := conversation(req.Messages)
	if err != nil {
		return p, err
	}
	if p.Thinking, err = m.thinking(turns, p.MaxTokens); err != nil {
		return p, err
	}
	if p.Tools, err = m.tools(req.Tools); err != nil {
		return p, err
	}
	p.ToolChoice = m.toolChoice(req)
	if p.OutputConfig, err = m.outputConfig(req.ResponseFormat); err != nil {
		return p, err
	}
	// The only thing that the API has a place for.
	if id := req.Metadata["user_id"]; id != "" {
		p.Metadata.UserID = param.NewOpt(id)
	}
	for _, t := range turns {
		p.Messages = append(p.Messages, t.param())
	}
	remember(&p, req.Cache)
	return p, nil
}

// thinking returns what the options say, as far as the history allows it.
func (m *Model) thinking(turns []*turn, maxTokens int64) (u sdk.ThinkingConfigParamUnion,
	err error) {
	o := m.options.Thinking
	switch o.Type {
	case "adaptive":
		u.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplay(o.Display)}
	case "between_tools":
		between := sdk.NewThinkingConfigBetweenToolsParam()
		u.OfBetweenTools = &between
	case "disabled":
		disabled := sdk.NewThinkingConfigDisabledParam()
		u.OfDisabled = &disabled
	case "enabled":
		if int64(o.Budget) >= maxTokens {
			return u, invalid("the request's Limits.OutputTokens (%d) must be above the thinking budget (%d), which is a part of it", maxTokens, o.Budget)
		}
		// Results must be the answer to a message that began with thinking, or
		// else the API refuses the request. Where another model asked for them,
		// this turn has to go on without.
		if unthinking(turns) {
			return u, nil
		}
		u.OfEnabled = &sdk.ThinkingConfigEnabledParam{BudgetTokens: int64(o.Budget),
			Display: sdk.ThinkingConfigEnabledDisplay(o.Display)}
	}
	return u, nil
}

// unthinking reports whether the history ends with results for a message of the
// assistant's that doesn't begin with thinking.
func unthinking(turns []*turn) bool {
	n := len(turns)
	if n < 2 || len(turns[n-1].results) == 0 {
		return false
	}
	asked := turns[n-2].blocks
	return len(asked) == 0 || !asked[0].thinking
}

func (m *Model) toolChoice(req llm.Request) (u sdk.ToolChoiceUnionParam) {
	switch c := req.ToolChoice; c.Mode {
	case llm.ToolNone:
		if len(req.Tools)+len(m.options.ServerTools) > 0 { // or else the API wants no choice
			none := sdk.NewToolChoiceNoneParam()
			u.OfNone = &none
		}
	case llm.ToolAny:
		u.OfAny = &sdk.ToolChoiceAnyParam{}
	case llm.ToolNamed:
		u.OfTool = &sdk.ToolChoiceToolParam{Name: c.Name}
	}
	return u
}

// outputConfig has no place for the format's name. Its description goes into
// the schema, if that has none itself.
func (m *Model) outputConfig(f llm.ResponseFormat) (c sdk.OutputConfigParam, err error) {
	c.Effort = sdk.OutputConfigEffort(m.options.Effort)
	if len(f.Schema) == 0 {
		return c, nil
	}
	raw, err := held.Response(f)
	if err != nil {
		return c, invalid("%w", err)
	}
	schema, err := wire.ParseObject(raw)
	if err != nil {
		return c, err
	}
	if f.Description != "" && !schema.Has("description") {
		schema.SetText("description", f.Description)
	}
	// The SDK's map would put the schema's members in another order, which is
	// the order in which the model writes them.
	var format wire.Object
	format.SetText("type", "json_schema")
	format.Set("schema", schema.JSON())
	c.Format = param.Override[sdk.JSONOutputFormatParam](format.JSON())
	return c, nil
}

// remember marks what the provider is to keep: tools, instructions, and
// everything up to the last message, each by itself, since what comes later
// changes more often.
func remember(p *sdk.MessageNewParams, hint llm.Cache) {
	mark := sdk.NewCacheControlEphemeralParam()
	switch hint {
	case llm.CacheDefault, llm.CacheNone: // the API keeps nothing that isn't marked
		return
	case llm.CacheShort:
		mark.TTL = sdk.CacheControlEphemeralTTLTTL5m
	case llm.CacheLong:
		mark.TTL = sdk.CacheControlEphemeralTTLTTL1h
	}
	for i := len(p.Tools) - 1; i >= 0; i-- {
		if c := p.Tools[i].GetCacheControl(); c != nil {
			*c = mark
			break
		}
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = mark
	}
	last := p.Messages[len(p.Messages)-1]
	blocks, _ := last.GetContent().AsAny().(*[]sdk.ContentBlockParamUnion)
	for i := len(*blocks) - 1; i >= 0; i-- {
		// Blocks that are replayed as they were have no place for a mark, and
		// thinking may not have one.
		if c := (*blocks)[i].GetCacheControl(); c != nil {
			*c = mark
			break
		}
	}
}
