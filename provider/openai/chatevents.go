package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// errStopped says that the caller wants no more events.
var errStopped = errors.New("stopped")

// read takes the server's answer. What comes is judged by its first byte, not by its content type, which compatible servers
// often get wrong: a server that can't stream answers a request for a stream with the whole message.
func (r *chatReply) read(res *http.Response) error {
	body := bufio.NewReader(res.Body)
	first, err := firstByte(body)
	switch {
	case err == io.EOF:
		return r.truncated("the answer is empty")
	case err != nil:
		return err
	case first == '{' || first == '[':
		return r.whole(res, body)
	case r.model.options.Whole || first == '<':
		text, _ := io.ReadAll(io.LimitReader(body, 4<<10))
		return r.malformed("the answer is no chat completion; is the base URL right? It begins: %s", wire.Excerpt(string(text)))
	}
	return r.stream(res, body)
}

// firstByte is the first that is no white space and no byte order mark. It stays unread.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n\u00EF\u00BB\u00BF", rune(c)) {
			return c, r.UnreadByte()
		}
	}
}

// stream reads server-sent events up to the line [DONE]. Some servers leave out the empty line after it: it is added.
func (r *chatReply) stream(res *http.Response, body io.Reader) error {
	added := strings.NewReader("\n\n")
	body = io.MultiReader(body, added)
	decoder := ssestream.NewDecoder(&http.Response{Header: res.Header, Body: io.NopCloser(body)})
	for decoder.Next() {
		event := decoder.Event()
		data := bytes.TrimSpace(event.Data)
		switch {
		case len(data) == 0: // keeps the connection alive
			continue
		case string(data) == "[DONE]":
			return r.end()
		}
		var c chatChunk
		err := json.Unmarshal(data, &c)
		if problem := r.told(res, event.Type, data, c); problem != nil {
			return problem
		}
		switch {
		case err != nil && added.Len() == 0 && isCutOff(err, data):
			return r.truncated("the stream ended within an event: %w", err)
		case err != nil:
			return r.malformed("%w in the event %s", err, wire.Excerpt(string(data)))
		case c.Choices == nil && c.Usage == nil && event.Type == "":
			return r.malformed("an event that is no chat completion chunk: %s", wire.Excerpt(string(data)))
		}
		if err := r.chunk(c); err != nil {
			return err
		}
	}
	switch err := decoder.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return r.malformed("a line of the stream is too long: %w", err)
	case err != nil:
		return err
	}
	return r.truncated("the stream ended without its line [DONE]")
}

// whole reads a message that comes at once. It is like a stream of one chunk, but each call is an entry of its own.
func (r *chatReply) whole(res *http.Response, body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var c chatChunk
	err = json.Unmarshal(data, &c)
	if problem := r.told(res, "", data, c); problem != nil {
		return problem
	}
	switch {
	case err != nil && isCutOff(err, data):
		return r.truncated("the answer ended in the middle: %w", err)
	case err != nil:
		return r.malformed("%w in the answer %s", err, wire.Excerpt(string(data)))
	case len(c.Choices) == 0:
		return r.malformed("the answer has no choices: %s", wire.Excerpt(string(data)))
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Message == nil {
			return r.malformed("the answer's choice has no message: %s", wire.Excerpt(string(data)))
		}
		for place := range choice.Message.ToolCalls {
			choice.Message.ToolCalls[place].Index = &place
		}
	}
	if err := r.chunk(c); err != nil {
		return err
	}
	return r.end()
}

// isCutOff says that data is the beginning of JSON, or of [DONE].
func isCutOff(err error, data []byte) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) && (syntax.Offset >= int64(len(data)) || strings.HasPrefix("[DONE]", string(data)))
}

// told is the error that an event tells of, nil if it tells of none.
func (r *chatReply) told(res *http.Response, event string, data []byte, c chatChunk) error {
	none := len(c.Error) == 0 || string(c.Error) == "null"
	if none && c.Object != "error" && event != "error" {
		return nil
	}
	return r.model.at.trouble(data).error(r.model.name, 0, res.Header, nil)
}

func (r *chatReply) truncated(format string, args ...any) error {
	return &llm.Error{Kind: llm.ErrTruncated, Provider: r.model.name, Err: fmt.Errorf(format, args...)}
}

func (r *chatReply) malformed(format string, args ...any) error {
	return wire.Malformed(r.model.name, format, args...)
}
