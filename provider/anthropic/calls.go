package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// toolUse returns a call in the API's form. Its native form is what a block of
// the API's has beside id, name and input: which code of the model's made the
// call, for one. So it may be replayed under another id.
func toolUse(c llm.ToolCall, id string) (block, error) {
	name, input := toolNames.Name(c.Name), wire.Arguments(c)
	if !own(c.Native) {
		return block{ContentBlockParamUnion: sdk.ContentBlockParamUnion{OfToolUse: &sdk.ToolUseBlockParam{ID: id, Name: name, Input: input}}}, nil
	}
	more, err := wire.ParseObject(c.Native.Data)
	if err != nil {
		return block{}, fmt.Errorf("the call's native form is no object: %.80q", c.Native.Data)
	}
	var whole wire.Object
	whole.SetText("type", "tool_use")
	whole.SetText("id", id)
	whole.SetText("name", name)
	whole.Set("input", input)
	for _, m := range more.Members {
		if !whole.Has(m.Name) {
			whole.Set(m.Name, m.Value)
		}
	}
	return block{ContentBlockParamUnion: param.Override[sdk.ContentBlockParamUnion](whole.JSON())},
		nil
}

// toolResult returns a result in the API's form. A result of no text at all has
// no content.
func toolResult(r llm.ToolResult, id string) (block, error) {
	p := &sdk.ToolResultBlockParam{ToolUseID: id}
	if r.Error {
		p.IsError = param.NewOpt(true)
	}
	if s := wire.ResultText(r, false); !isBlank(s) {
		p.Content = append(p.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: s}})
	}
	for _, m := range r.Media {
		if own(m.Native) {
			if !json.Valid(m.Native.Data) || !bytes.HasPrefix(bytes.TrimSpace(m.Native.Data),
				[]byte("{")) {
				return block{}, fmt.Errorf("the native form of the result's media is no object: %.80q", m.Native.Data)
			}
			p.Content = append(p.Content, param.Override[sdk.ToolResultBlockParamContentUnion](m.Native.Data))
			continue
		}
		c, err := mediaBlock(m)
		if err != nil { // it is for ever in the history
			p.Content = append(p.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: wire.MediaNote(m, err)}})
			continue
		}
		p.Content = append(p.Content, sdk.ToolResultBlockParamContentUnion{OfImage: c.OfImage,
			OfDocument: c.OfDocument})
	}
	return block{ContentBlockParamUnion: sdk.ContentBlockParamUnion{OfToolResult: p}}, nil
}
