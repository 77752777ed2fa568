package anthropic

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// media returns an image or a document in a turn. The API takes none from the
// assistant: there, a line of text stands for it.
func (t *turn) media(m llm.Media) (block, error) {
	if t.assistant() {
		note := "[media of type " + m.MediaType
		if m.Name != "" {
			note += ", named " + m.Name
		}
		return text(note + "; it can't be shown here]"), nil
	}
	b, err := mediaBlock(m)
	if err != nil && t.old {
		return text(wire.MediaNote(m, err)), nil
	}
	return block{ContentBlockParamUnion: b}, err
}

// mediaBlock returns an image or a document: of OfImage and OfDocument, one is
// set.
func mediaBlock(m llm.Media) (b sdk.ContentBlockParamUnion, err error) {
	if m, err = wire.Media(m); err != nil {
		return b, err
	}
	if m.URL != "" {
		if err := checkURL(m.URL); err != nil {
			return b, err
		}
	}
	kind := m.MediaType
	switch {
	case kind == "image/jpeg", kind == "image/png", kind == "image/gif", kind == "image/webp":
		b.OfImage = &sdk.ImageBlockParam{Source: imageSource(kind, m)}
	case kind == "application/pdf":
		b.OfDocument = &sdk.DocumentBlockParam{Source: pdfSource(m)}
	case isText(kind) && len(m.Data) == 0:
		return b, fmt.Errorf("text of type %s at a URL: the API loads images and PDF documents only, so send the text itself", kind)
	case isText(kind):
		if !utf8.Valid(m.Data) {
			return b, fmt.Errorf("text of type %s that is no UTF-8: convert it", kind)
		}
		if isBlank(string(m.Data)) {
			return b, fmt.Errorf("text of type %s with nothing in it", kind)
		}
		b.OfDocument = &sdk.DocumentBlockParam{Source: sdk.DocumentBlockParamSourceUnion{OfText: &sdk.PlainTextSourceParam{Data: string(m.Data)}}}
	default:
		return b, fmt.Errorf("media of type %s: the API takes images (JPEG, PNG, GIF, WebP), PDF documents and text", kind)
	}
	if b.OfDocument != nil && m.Name != "" {
		b.OfDocument.Title = param.NewOpt(m.Name)
	}
	return b, nil
}

func imageSource(kind string, m llm.Media) (u sdk.ImageBlockParamSourceUnion) {
	if len(m.Data) == 0 {
		u.OfURL = &sdk.URLImageSourceParam{URL: m.URL}
		return u
	}
	u.OfBase64 = &sdk.Base64ImageSourceParam{Data: base64.StdEncoding.EncodeToString(m.Data),
		MediaType: sdk.Base64ImageSourceMediaType(kind)}
	return u
}

func pdfSource(m llm.Media) (u sdk.DocumentBlockParamSourceUnion) {
	if len(m.Data) == 0 {
		u.OfURL = &sdk.URLPDFSourceParam{URL: m.URL}
		return u
	}
	u.OfBase64 = &sdk.Base64PDFSourceParam{Data: base64.StdEncoding.EncodeToString(m.Data)}
	return u
}

// isText reports whether a document of a type can be read as it is.
func isText(kind string) bool {
	switch kind {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml",
		"application/javascript", "application/sql":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") ||
		strings.HasSuffix(kind, "+xml") && !strings.HasPrefix(kind, "image/")
}

// checkURL reports one that the API wouldn't load.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return fmt.Errorf("the media's URL is none: %w", err)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("the media's URL has the scheme %q: the API loads https only, so send the bytes", u.Scheme)
	}
	return nil
}
