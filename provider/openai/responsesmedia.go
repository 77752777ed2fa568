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
	kind, sub, ok := strings.Cut(strings.ToLower(m.MediaType), "/")
	switch {
	case !ok || kind == "" || sub == "":
		return source{}, fmt.Errorf("the media type %q is none; it looks like \"image/png\"", m.MediaType)
	case kind == "audio" || kind == "video":
		return source{}, fmt.Errorf("the Responses API takes no %s: leave it out, or send what is said in it as text", m.MediaType)
	case len(m.Data) == 0 && m.URL == "":
		return source{}, fmt.Errorf("the media of type %s has neither data nor URL", m.MediaType)
	}
	url := m.URL
	if len(m.Data) > 0 {
		url = "data:" + m.MediaType + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
	}
	switch {
	case kind == "image":
		return source{image: true, url: url}, nil
	case len(m.Data) == 0:
		return source{link: openai.String(url)}, nil
	}
	name := m.Name
	if name == "" { // the API wants one
		sub, _, _ = strings.Cut(sub, ";")
		name = "file." + sub
	}
	return source{data: openai.String(url), name: openai.String(name)}, nil
}
