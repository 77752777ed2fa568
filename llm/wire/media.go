package wire

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/url"
	"strings"

	"github.com/fermata-ai/fermata/llm"
)

// Media is media with its type in lower case and without parameters, and with
// the bytes that are in a data: URL (RFC 2397) as Data, since few providers
// load those. Bytes count before a URL. What has no type, or nothing to show,
// is an error.
func Media(m llm.Media) (llm.Media, error) {
	kind, _, err := mime.ParseMediaType(m.MediaType)
	if err != nil || !strings.Contains(kind, "/") {
		return m, fmt.Errorf("the media %q has the media type %q, which is none; it looks like \"image/png\"", m.Name, m.MediaType)
	}
	if kind == "image/jpg" { // often written so
		kind = "image/jpeg"
	}
	m.MediaType = kind
	switch {
	case len(m.Data) > 0:
		m.URL = ""
		return m, nil
	case m.URL == "":
		return m, fmt.Errorf("the media %q of type %s has neither bytes nor a URL", m.Name, kind)
	case len(m.URL) < 5 || !strings.EqualFold(m.URL[:5], "data:"):
		return m, nil
	}
	head, data, _ := strings.Cut(m.URL[5:], ",")
	if data == "" {
		return m, fmt.Errorf("the data: URL of the media %q has no comma, or nothing behind it",
			m.Name)
	}
	data, err = url.PathUnescape(data)
	m.URL, m.Data = "", []byte(data)
	if strings.HasSuffix(head, ";base64") && err == nil {
		m.Data, err = base64.StdEncoding.DecodeString(data)
	}
	if err != nil {
		return m, fmt.Errorf("the data: URL of the media %q can't be read: %w", m.Name, err)
	}
	return m, nil
}
