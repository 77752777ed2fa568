package modeltext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Arguments is llm.Arguments, of bytes.
func Arguments(raw []byte) (json.RawMessage, error) {
	if !utf8.Valid(raw) {
		raw = []byte(CleanString(string(raw)))
	}
	v, err := argumentValue(raw)
	if err != nil {
		return strictjson.AppendString(make([]byte, 0, len(raw)+len(raw)/8+2), raw), err
	}
	if len(v) > 0 && v[0] == '"' {
		return stringArguments(v)
	}
	if isNothing(v) {
		return json.RawMessage("{}"), nil
	}
	return CleanJSON(v), nil
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
		if args, err = Arguments([]byte(strictjson.Unquote(args))); err != nil {
			return nil, false
		}
	}
	return args, args[0] == '{'
}

func isNothing[T ~string | ~[]byte](v T) bool { return len(v) == 0 || string(v) == "null" }

// stringArguments judges a value that is a string: no object, but perhaps text
// that an earlier call could not parse.
func stringArguments(v []byte) (json.RawMessage, error) {
	inner := strictjson.Unquote(v)
	if strings.HasPrefix(inner, shortened) {
		return CleanJSON(v), tooLong(inner)
	}
	if t := strings.TrimSpace(inner); isNothing(t) || t == "{}" {
		return json.RawMessage("{}"), nil
	}
	_, err := Arguments([]byte(inner))
	return CleanJSON(v), err
}

// shortened begins what [ShortenArguments] makes.
const shortened = "(too long: "

// ShortenArguments returns what can be kept of arguments that no tool takes
// since they are over a limit, in bytes: a JSON string with their beginning, of
// which [Arguments] tells how long they were.
func ShortenArguments(args json.RawMessage, limit int) json.RawMessage {
	const most = 1 << 10 // bytes of their beginning
	text := fmt.Sprintf("%s%d bytes, at most %d are taken)\n%s", shortened, len(args), limit,
		excerpt.Head(string(args), most))
	return strictjson.AppendString(nil, text)
}

// tooLong returns the error of arguments that were shortened.
func tooLong(inner string) error {
	line, _, _ := strings.Cut(inner, "\n")
	return fmt.Errorf("the arguments are %.100s; write less", strings.Trim(line, "()"))
}

const (
	mark  = "\uFEFF" // a byte order mark
	fence = "```"
)

// argumentValue returns the one value in text, empty where there is only white
// space. The error is for the model to read.
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
		inside, end, bad := unfence(text, lo, hi)
		if bad != nil {
			return nil, bad.in(text)
		}
		lo, hi = inside, end
		if trim(); lo == hi {
			return nil, (&fault{lo, "the markdown fence is empty"}).in(text)
		}
	}
	if lo == hi {
		return nil, nil
	}
	const depth = 100 // room for the message and the records around the value
	v := text[lo:hi]
	if err := strictjson.CheckWithin(v, depth); err != nil {
		return nil, findFault(v, lo, err).in(text)
	}
	return v, nil
}

// fault is a place where text isn't JSON, and why.
type fault struct {
	at      int // byte offset
	problem string
}

// findFault finds it in a value that was refused.
func findFault(v []byte, from int, refused error) *fault {
	_, err := strictjson.Parse(v, strictjson.Rules{})
	if bad, ok := errors.AsType[*strictjson.SyntaxError](err); ok {
		return &fault{from + bad.Offset, bad.Reason}
	}
	at := from
	if bad, ok := errors.AsType[*strictjson.Error](refused); ok {
		at += bad.Offset
	}
	return &fault{at, "it is nested too deep"}
}

// in words the fault for the model: the problem, the place, and the text around
// it.
func (f *fault) in(text []byte) error {
	const around = 40 // bytes each side
	before, after := excerpt.Around(string(text), f.at, around)
	return fmt.Errorf("arguments must be one JSON object: at byte %d, %s: %s<<HERE>>%s", f.at, f.problem, before, after)
}

// unfence narrows text[lo:hi], which begins with a markdown fence, to what is inside.
func unfence(text []byte, lo, hi int) (int, int, *fault) {
	n := len(fence)
	for lo+n < hi && text[lo+n] == '`' {
		n++
	}
	ticks, open := text[lo:lo+n], lo
	lo += n
	if hi-lo < n || !bytes.HasSuffix(text[:hi], ticks) {
		if at := bytes.Index(text[lo:hi], ticks); at >= 0 {
			return 0, 0, &fault{lo + at + n, "text follows the markdown fence"}
		}
		return 0, 0, &fault{hi, fmt.Sprintf("the text ends inside the markdown fence that begins at byte %d", open)}
	}
	hi -= n
	// What stands after the opening fence up to the end of its line is the name
	// of a language; "json" is one also before the value on the same line.
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
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '+' &&
			c != '-' && c != '_' {
			return false
		}
	}
	return true
}
