package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Arguments makes a JSON value of the text that a model wrote for a call's arguments. It never guesses:
//   - Nothing, "", white space and null are {}, and so is a JSON string that holds no more than one of these, or {}.
//   - A byte order mark, and a markdown fence around one complete value, are taken off.
//   - Any other value stays byte for byte, cleaned as by [CleanJSON].
//   - What is no value, or more than one, is an error that quotes it and shows the place, for the model to read.
//
// With an error, the value returned is the text itself as a JSON string. A [ToolCall] that holds it can be stored and sent,
// and no tool runs by accident, since tools take objects. The error travels apart, and isn't lost: Arguments of such a string
// returns the string and the same error, so that a call is judged alike before and after a crash.
//
// The result may share memory with raw.
func Arguments[T ~string | ~[]byte](raw T) (json.RawMessage, error) {
	return arguments([]byte(raw))
}

// ArgumentsObject returns the object that a call's arguments are, or that they
// hold as a string: models encode it twice now and then, and a tool may have
// taken it so. Ok is false where there is none.
func ArgumentsObject(raw json.RawMessage) (object json.RawMessage, ok bool) {
	args, err := Arguments(raw)
	if err != nil {
		return nil, false
	}
	if args[0] == '"' {
		if args, err = Arguments(unquote(args)); err != nil {
			return nil, false
		}
	}
	return args, args[0] == '{'
}

func arguments(raw []byte) (json.RawMessage, error) {
	if !utf8.Valid(raw) {
		raw = []byte(CleanString(string(raw)))
	}
	v, err := argumentValue(raw)
	if err != nil {
		return appendString(make([]byte, 0, len(raw)+len(raw)/8+2), string(raw)), describe(raw, err)
	}
	if len(v) > 0 && v[0] == '"' {
		return stringArguments(v)
	}
	if isNothing(v) {
		return json.RawMessage("{}"), nil
	}
	return CleanJSON(v), nil
}

func isNothing[T ~string | ~[]byte](v T) bool { return len(v) == 0 || string(v) == "null" }

// stringArguments judges a value that is a string: no object, but perhaps text that an earlier call could not parse.
func stringArguments(v []byte) (json.RawMessage, error) {
	inner := unquote(v)
	if strings.HasPrefix(inner, shortened) {
		return CleanJSON(v), tooLong(inner)
	}
	if t := strings.TrimSpace(inner); isNothing(t) || t == "{}" {
		return json.RawMessage("{}"), nil
	}
	_, err := arguments([]byte(inner))
	return CleanJSON(v), err
}

// shortened begins what [ShortenArguments] makes.
const shortened = "(too long: "

// ShortenArguments returns what can be kept of arguments that no tool takes
// since they are over a limit, in bytes: a JSON string with their beginning, of
// which [Arguments] says how long they were.
func ShortenArguments(args json.RawMessage, limit int) json.RawMessage {
	const most = 1 << 10 // bytes of their beginning
	text := fmt.Sprintf("%s%d bytes, at most %d are taken)\n%s", shortened, len(args), limit,
		strings.ToValidUTF8(string(args[:min(len(args), most)]), ""))
	return appendString(nil, text)
}

// tooLong is the error of arguments that were shortened.
func tooLong(inner string) error {
	line, _, _ := strings.Cut(inner, "\n")
	return fmt.Errorf("the arguments are %.100s; write less", strings.Trim(line, "()"))
}

const (
	mark  = "\uFEFF" // a byte order mark
	fence = "```"
)

// argumentValue returns the one value in text, empty where there is only white space.
func argumentValue(text []byte) ([]byte, error) {
	lo, hi := 0, len(text)
	trim := func() {
		lo = hi - len(bytes.TrimLeftFunc(text[lo:hi], unicode.IsSpace))
		hi = lo + len(bytes.TrimSpace(text[lo:hi]))
	}
	if trim(); bytes.HasPrefix(text[lo:hi], []byte(mark)) {
		lo += len(mark)
		trim()
	}
	if bytes.HasPrefix(text[lo:hi], []byte(fence)) {
		var err error
		if lo, hi, err = unfence(text, lo, hi); err != nil {
			return nil, err
		}
		if trim(); lo == hi {
			return nil, &syntaxError{lo, "the markdown fence is empty"}
		}
	}
	if lo == hi {
		return nil, nil
	}
	const depth = 100 // room for the message and the records around the value
	s := scanner{b: text[:hi], i: lo, depth: depth}
	v, err := s.value()
	if err != nil {
		return nil, err
	}
	return v, s.end()
}

// unfence narrows text[lo:hi], which begins with a markdown fence, to what is inside.
func unfence(text []byte, lo, hi int) (int, int, error) {
	n := len(fence)
	for lo+n < hi && text[lo+n] == '`' {
		n++
	}
	ticks, open := text[lo:lo+n], lo
	lo += n
	if hi-lo < n || !bytes.HasSuffix(text[:hi], ticks) {
		if at := bytes.Index(text[lo:hi], ticks); at >= 0 {
			return 0, 0, &syntaxError{lo + at + n, "text follows the markdown fence"}
		}
		return 0, 0, &syntaxError{hi, fmt.Sprintf("the text ends inside the markdown fence that begins at byte %d", open)}
	}
	hi -= n
	// What stands after the opening fence up to the end of its line is the name of a language; "json" is one also before
	// the value on the same line.
	line := text[lo:hi]
	end := bytes.IndexByte(line, '\n')
	switch {
	case end >= 0 && isLanguage(bytes.TrimSpace(line[:end])):
		lo += end
	case len(line) >= 4 && strings.EqualFold(string(line[:4]), "json"):
		lo += 4
	}
	return lo, hi, nil
}

func isLanguage(b []byte) bool {
	for _, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '+' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// describe words an error for the model: the problem, the place, and the text around it.
func describe(text []byte, err error) error {
	const around = 40 // bytes each side
	e := err.(*syntaxError)
	from, to := max(e.at-around, 0), min(e.at+around, len(text))
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	before, after := string(text[from:e.at]), string(text[e.at:to])
	if from > 0 {
		before = "..." + before
	}
	if to < len(text) {
		after += "..."
	}
	return fmt.Errorf("arguments must be one JSON object: %w: %s<<HERE>>%s", e, before, after)
}
