package openai

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3"
)

// media returns an image, a sound or a document as a part of a user's message.
func (w *chatMessages) media(m llm.Media) (part openai.ChatCompletionContentPartUnionParam,
	err error) {
	if own := w.own(m.Native); own != nil {
		return raw[openai.ChatCompletionContentPartUnionParam](own), nil
	}
	if m, err = wire.Media(m); err != nil {
		return part, err
	}
	kind, at := m.MediaType, m.URL
	encoded := base64.StdEncoding.EncodeToString(m.Data)
	if len(m.Data) > 0 {
		at = "data:" + kind + ";base64," + encoded
	}
	name := cmp.Or(m.Name, map[string]string{"application/pdf": "document.pdf"}[kind], "document")
	main, sub, _ := strings.Cut(kind, "/")
	switch {
	case main == "image" && len(m.Data) > 0 && w.model.at.openai && !isImage(sub):
		return part, fmt.Errorf("the media %q is of type %s: OpenAI takes PNG, JPEG, GIF and WebP",
			m.Name, kind)
	case main == "image":
		return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: at}),
			nil
	case main == "audio":
		format, ok := map[string]string{"wav": "wav", "x-wav": "wav", "wave": "wav", "mpeg": "mp3",
			"mp3": "mp3"}[sub]
		if !ok || len(m.Data) == 0 {
			return part, fmt.Errorf("the media %q of type %q with %d bytes: the API takes sound as the bytes of audio/wav or audio/mpeg", m.Name, kind, len(m.Data))
		}
		return openai.InputAudioContentPart(openai.ChatCompletionContentPartInputAudioInputAudioParam{Data: encoded, Format: format}), nil
	// Files are PDFs, or nothing at many servers; text is understood by all.
	case isText(kind) && len(m.Data) > 0 && utf8.Valid(m.Data):
		return openai.TextContentPart(name + ":\n\n" + string(m.Data) + "\n"), nil
	case len(m.Data) == 0 && w.model.at.openai: // OpenRouter, for one, takes it
		return part, fmt.Errorf("the media %q of type %q is given by URL: OpenAI takes documents as bytes", m.Name, kind)
	}
	return openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{FileData: openai.String(at), Filename: openai.String(name)}), nil
}

func isText(kind string) bool {
	return strings.HasPrefix(kind, "text/") || kind == "application/json" ||
		kind == "application/xml" || kind == "application/yaml"
}

// imageAt returns what a model drew: a data URL, or where the image is.
func imageAt(at string) (llm.Media, error) {
	head, encoded, ok := strings.Cut(at, ";base64,")
	kind, isData := strings.CutPrefix(head, "data:")
	if !ok || !isData {
		if at == "" || isData {
			return llm.Media{}, fmt.Errorf("the URL %.40q", at)
		}
		return llm.Media{MediaType: "image/*", URL: at}, nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	return llm.Media{MediaType: kind, Data: data}, err
}
