package gemini

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/fermata-ai/fermata/llm/wire"
)

// mostEvent is how long an event may be, in bytes. Images come within one.
const mostEvent = wire.MaxWhole

// notEvents is a body, or the rest of one, that is no stream of events: the
// service may end a stream with a bare error object, what can't stream answers
// with the whole message, and what stands between may answer with a page.
type notEvents struct {
	text  []byte // its beginning, up to 64 KiB; all of what may be a message
	later bool   // it comes after events
}

// isWhole reports whether it may be a message, or a list of its pieces, in
// place of a stream.
func (e *notEvents) isWhole() bool { return !e.later && isJSON(e.text) }

func isJSON(text []byte) bool { return len(text) > 0 && (text[0] == '{' || text[0] == '[') }

func (e *notEvents) Error() string { return fmt.Sprintf("no stream of events: %.200q", e.text) }

// events reads the data of server-sent events. An event that the end of the
// body cuts off is none. The body's lines end with one line feed: see
// wire.Stream.
//
// See
// https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream;
// the service sends data only.
func events(body io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r := bufio.NewReaderSize(body, 64<<10)
		var data []byte
		has, later := false, false
		for {
			line, err := readLine(r, mostEvent-len(data))
			whole := err == nil
			line = bytes.TrimRight(line, "\r\n")
			field, value, _ := bytes.Cut(line, []byte(":"))
			switch f := string(field); {
			case err != nil && !errors.Is(err, io.EOF):
				yield(nil, err)
				return
			case whole && len(line) == 0:
				if has && !yield(data, nil) {
					return
				}
				data, has, later = nil, false, later || has
			case whole && f == "data":
				if has {
					data = append(data, '\n')
				}
				data, has = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
			case f == "data" || f == "" || f == "event" || f == "id" || f == "retry":
			case whole || line[0] == '{' || line[0] == '[' || line[0] == '<':
				other := &notEvents{append(line, '\n'), later}
				if other.isWhole() {
					other.text, err = wire.ReadWhole(provider,
						io.MultiReader(bytes.NewReader(other.text), r))
					if err != nil {
						yield(nil, err)
						return
					}
				} else {
					rest, _ := io.ReadAll(io.LimitReader(r, 64<<10))
					other.text = append(other.text, rest...)
				}
				yield(nil, other)
				return
			}
			if !whole {
				return
			}
		}
	}
}

// readLine reads a line and its end. With io.EOF, it is what stands before the
// end of the body.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if line = append(line, piece...); len(line) > most {
			return nil, wire.TooLong(provider)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
