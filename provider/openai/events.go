package openai

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// errStopped ends a reply whose caller wants no more events.
var errStopped = errors.New("stopped")

// answer is what a server sends, whose body is being read. What comes is judged
// by its first byte, not by its content type, which compatible servers often
// get wrong: one that can't stream answers a request for a stream with the
// whole message, and one that can't do otherwise streams what was to come at
// once.
type answer struct {
	*http.Response
	body  *bufio.Reader
	first byte // of the body, and still in it, but for white space and a byte order mark
}

// open reads up to the first byte. Its error is io.EOF where the answer is
// empty.
func open(res *http.Response) (answer, error) {
	a := answer{Response: res, body: bufio.NewReader(res.Body)}
	for {
		c, err := a.body.ReadByte()
		if err != nil {
			return a, err
		}
		if !strings.ContainsRune(" \t\r\n\u00EF\u00BB\u00BF", rune(c)) {
			a.first = c
			return a, a.body.UnreadByte()
		}
	}
}

// isJSON reports whether the answer is a message that comes at once, or an
// error.
func (a answer) isJSON() bool { return a.first == '{' || a.first == '[' }

// isStream reports whether the answer begins as server-sent events do: with a
// comment, or with one of the fields data, event, id and retry.
func (a answer) isStream() bool { return strings.IndexByte(":deir", a.first) >= 0 }

// isFramed reports whether HTTP itself tells the end of the answer: by chunks,
// by a length, by a compression with a checksum at its end, or by the frames of
// HTTP/2 and HTTP/3. Where nothing tells it but that the connection is closed
// (RFC 9112, section 6.3), one that broke looks alike.
func (a answer) isFramed() bool {
	return a.ProtoMajor >= 2 || a.ContentLength > 0 || a.Uncompressed ||
		slices.Contains(a.TransferEncoding, "chunked")
}

// noJSON returns an answer that is neither a stream nor JSON: a page of
// something between here and the server, which says with the status 200 what it
// should say with 502. Like that, it may pass.
func (a answer) noJSON(provider string, text []byte) error {
	return wire.Page(provider, a.Header.Get("Content-Type"), text)
}

// page is noJSON of an answer that is no stream.
func (a answer) page(provider string) error {
	text, err := io.ReadAll(io.LimitReader(a.body, 4<<10))
	if err != nil {
		return err
	}
	return a.noJSON(provider, text)
}

// events are the server-sent events of an answer.
type events struct {
	decoder ssestream.Decoder
	added   *strings.Reader
}

// events reads them. Some servers leave out the empty line after the last one:
// it is added.
func (a answer) events() *events {
	added := strings.NewReader("\n\n")
	body := io.NopCloser(io.MultiReader(a.body, added))
	return &events{ssestream.NewDecoder(&http.Response{Header: a.Header, Body: body}), added}
}

// isLast reports whether nothing ended the event that was read but the end of
// the answer. Its JSON may be cut off then.
func (e *events) isLast() bool { return e.added.Len() == 0 }

// err returns why there are no more events, nil where the answer has ended.
func (e *events) err(provider string) error {
	err := e.decoder.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return wire.Malformed(provider, "a line of the stream is too long: %w", err)
	}
	return err
}

// isCutOff reports whether data is the beginning of JSON, or of [DONE].
func isCutOff(err error, data []byte) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) &&
		(syntax.Offset >= int64(len(data)) || strings.HasPrefix("[DONE]", string(data)))
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax)
}

// isNull reports whether a member is missing, or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
