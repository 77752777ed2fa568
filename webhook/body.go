package webhook

import (
	"mime"
	"net/http"
	"strings"
)

// isJSON returns the refusal of a body whose type is not JSON, before it is
// read.
func isJSON(r *http.Request) error {
	text := r.Header.Get("Content-Type")
	if text == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(text)
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return unsupported("the body must be JSON; send Content-Type: application/json")
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") &&
		!strings.EqualFold(charset, "us-ascii") {
		return unsupported("the body must be in UTF-8")
	}
	return nil
}

func unsupported(detail string) error { return &requestError{"unsupported", detail} }

// byteOrderMark is what some systems put before a text. RFC 8259, section 8.1,
// allows a reader to ignore it.
var byteOrderMark = []byte("\uFEFF")
