package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// content is media in a user's message.
func content(m llm.Media) (responses.ResponseInputContentUnionParam, error) {
	s, err := newSource(m)
	switch {
	case err != nil:
		return responses.ResponseInputContentUnionParam{}, err
	case s.raw != nil:
		return param.Override[responses.ResponseInputContentUnionParam](s.raw), nil
	case s.image:
		return responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
			Detail:   responses.ResponseInputImageDetailAuto,
			ImageURL: openai.String(s.url),
		}}, nil
	}
	return responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{
		FileData: s.data, FileURL: s.link, Filename: s.name,
	}}, nil
}

// output is media in a call's result.
func output(m llm.Media) (responses.ResponseFunctionCallOutputItemUnionParam, error) {
	s, err := newSource(m)
	switch {
	case err != nil:
		return responses.ResponseFunctionCallOutputItemUnionParam{}, err
	case s.raw != nil:
		return param.Override[responses.ResponseFunctionCallOutputItemUnionParam](s.raw), nil
	case s.image:
		return responses.ResponseFunctionCallOutputItemUnionParam{OfInputImage: &responses.ResponseInputImageContentParam{
			Detail:   responses.ResponseInputImageContentDetailAuto,
			ImageURL: openai.String(s.url),
		}}, nil
	}
	return responses.ResponseFunctionCallOutputItemUnionParam{OfInputFile: &responses.ResponseInputFileContentParam{
		FileData: s.data, FileURL: s.link, Filename: s.name,
	}}, nil
}

// source is where media comes from, in the API's words.
type source struct {
	raw              json.RawMessage // the API's own form, in place of all else
	image            bool
	url              string            // of an image: its address, or its bytes as one
	data, link, name param.Opt[string] // of a file: its bytes and name, or its address
}

func newSource(m llm.Media) (source, error) {
	raw, err := own(m.Native)
	if raw != nil || err != nil {
		return source{raw: raw}, err
	}
	if m, err = wire.Media(m); err != nil {
		return source{}, err
	}
	typ := m.MediaType
	kind, sub, _ := strings.Cut(typ, "/")
	switch {
	case kind == "image" && len(m.Data) > 0 && !isImage(sub):
		return source{}, fmt.Errorf("the media %q is of type %s: the Responses API takes PNG, JPEG, GIF and WebP", m.Name, typ)
	case kind == "audio" || kind == "video":
		return source{}, fmt.Errorf("the media %q is of the type %s, which the Responses API doesn't take: leave it out, or send what is said in it as text", m.Name, typ)
	}
	url := m.URL
	if len(m.Data) > 0 {
		url = "data:" + typ + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
	}
	switch {
	case kind == "image":
		return source{image: true, url: url}, nil
	case len(m.Data) == 0:
		return source{link: openai.String(url)}, nil
	}
	name := m.Name
	if name == "" { // the API wants one
		name = "file." + sub
	}
	return source{data: openai.String(url), name: openai.String(name)}, nil
}
