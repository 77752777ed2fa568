package openai

import (
	"encoding/base64"
	"fmt"
	"mime"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/openai/openai-go/v3"
)

// media is an image, a sound or a document as a part of a user's message.
func (w *chatMessages) media(m llm.Media) (part openai.ChatCompletionContentPartUnionParam, err error) {
	if own := w.own(m.Native); own != nil {
		return raw[openai.ChatCompletionContentPartUnionParam](own), nil
	}
	kind, _, err := mime.ParseMediaType(m.MediaType)
	switch {
	case err != nil:
		return part, fmt.Errorf("the media %q has the type %q, which is none: %w", m.Name, m.MediaType, err)
	case len(m.Data) == 0 && m.URL == "":
		return part, fmt.Errorf("the media %q of type %q has neither data nor a URL", m.Name, kind)
	}
	at := m.URL
	encoded := base64.StdEncoding.EncodeToString(m.Data)
	if len(m.Data) > 0 {
		at = "data:" + kind + ";base64," + encoded
	}
	main, sub, _ := strings.Cut(kind, "/")
	switch {
	case main == "image":
		return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: at}), nil
	case main == "audio":
		format, ok := map[string]string{"wav": "wav", "x-wav": "wav", "wave": "wav", "mpeg": "mp3", "mp3": "mp3"}[sub]
		if !ok || len(m.Data) == 0 {
			return part, fmt.Errorf("the media %q of type %q with %d bytes: the API takes sound as the bytes of audio/wav or audio/mpeg", m.Name, kind, len(m.Data))
		}
		return openai.InputAudioContentPart(openai.ChatCompletionContentPartInputAudioInputAudioParam{Data: encoded, Format: format}), nil
	case len(m.Data) == 0 && w.model.at.own: // OpenRouter, for one, takes it
		return part, fmt.Errorf("the media %q of type %q is given by URL: OpenAI takes documents as bytes", m.Name, kind)
	}
	name := m.Name
	if name == "" {
		name = "document"
		if sub == "pdf" {
			name += ".pdf"
		}
	}
	return openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{FileData: openai.String(at), Filename: openai.String(name)}), nil
}
