package openai

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/fermata-ai/fermata/llm/wire"
)

// chatArgs are a call's arguments, which come in pieces. Two habits of
// compatible servers are seen to. Some begin each call with {}, null or "", and
// then send its arguments. Others send the arguments once more at the end,
// whole.
type chatArgs struct {
	text   strings.Builder
	held   string // a first piece that may stand for nothing: it counts if no more come
	stood  bool   // it did stand for nothing
	pieces int    // that made the text
	half   wire.Halves
}

// add returns what a piece adds.
func (a *chatArgs) add(p wire.Piece) string {
	if a.repeats(p) {
		return ""
	}
	s := a.half.Join(p)
	switch {
	case s == "":
		return ""
	case a.text.Len() == 0 && isPlaceholder(s):
		a.held = s
		return ""
	case a.text.Len() == 0 && strings.TrimSpace(s) == "":
		return ""
	}
	a.held, a.stood = "", a.held != "" || a.stood
	return a.write(s)
}

func (a *chatArgs) write(s string) string {
	a.text.WriteString(s)
	a.pieces++
	return s
}

// end returns what is left to add when no more pieces come.
func (a *chatArgs) end() string {
	s := a.held + a.half.Rest()
	if a.held = ""; s == "" {
		return ""
	}
	return a.write(s)
}

// String returns the text so far.
func (a *chatArgs) String() string { return a.text.String() + a.held }

func isPlaceholder(s string) bool {
	switch strings.TrimSpace(s) {
	case "{}", "null", `""`:
		return true
	}
	return false
}

// isObject reports whether the arguments are a whole JSON object.
func (a *chatArgs) isObject() bool {
	s := strings.TrimSpace(a.String())
	return strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && json.Valid([]byte(s))
}

// repeats reports whether a piece is the arguments once more, whole. Another
// object after a whole one is none: what it means isn't known, and the model is
// told.
func (a *chatArgs) repeats(p wire.Piece) bool {
	if a.text.Len() == 0 || !strings.HasPrefix(strings.TrimSpace(string(p)), "{") || !a.isObject() {
		return false
	}
	text := a.text.String()
	return strings.TrimSpace(text) == strings.TrimSpace(string(p)) || sameJSON(text, string(p))
}

// isResent reports whether a piece without an id is the arguments once more.
// What came at once may as well be what another call has.
func (a *chatArgs) isResent(p wire.Piece) bool { return a.pieces > 1 && a.repeats(p) }

// sameJSON reports whether two texts are the same JSON: white space and the
// order of members don't count, the digits of numbers do.
func sameJSON(a, b string) bool {
	var values [2]any
	for i, s := range []string{a, b} {
		if !json.Valid([]byte(s)) {
			return false
		}
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
