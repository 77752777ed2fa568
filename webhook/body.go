package webhook

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
)

// checkHeaders returns the refusal of a body that is not plain JSON, before it
// is read.
func checkHeaders(w http.ResponseWriter, r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" &&
		!strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity") // RFC 9110, section 12.5.3
		return unsupported("compressed bodies are not taken; send it without a Content-Encoding")
	}
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

func unsupported(detail string) error {
	return &requestError{"unsupported", detail}
}

// byteOrderMark is what some systems put before a text. RFC 8259, section 8.1,
// allows a reader to ignore it.
var byteOrderMark = []byte("\uFEFF")

// read returns a body of up to MaxBody bytes. One that is announced as larger
// is refused unread.
func (h *handler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > h.config.MaxBody {
		w.Header().Set("Connection", "close") // or the server would read on
		return nil, h.tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.config.MaxBody))
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &over):
		return nil, h.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, &requestError{"too_slow",
			"the body took too long to arrive"}
	}
	return nil, &requestError{"broken",
		"the body could not be read to its end"}
}

func (h *handler) tooLarge() error {
	return &requestError{"too_large", fmt.Sprintf(
		"a body has at most %d bytes; store a larger output elsewhere and send a reference, or "+
			"send a failure", h.config.MaxBody)}
}
