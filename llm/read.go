package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// UnmarshalJSON decodes what AppendJSON wrote, by this version or another: part
// types that it doesn't know become [Unknown], members of the message that it
// doesn't know become [Message.Extra]. What no version writes is an error: a
// member that is there twice, is null, is missing, or is named in another case.
// The message doesn't share memory with b.
func (m *Message) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		return nil // by convention
	}
	r := readers.Get().(*messageReader)
	err := strictjson.Walk(b, r.walk)
	if err == nil {
		*m = r.m
	}
	*r = messageReader{walk: r.walk}
	readers.Put(r)
	if err != nil {
		return fmt.Errorf("llm: message: %w", err)
	}
	return nil
}

// readers are those that no message uses: a history has thousands.
var readers = sync.Pool{New: func() any {
	r := new(messageReader)
	r.walk = r.read
	return r
}}

func isNull(b []byte) bool { return string(bytes.Trim(b, " \n\r\t")) == "null" }

// messageReader reads a message.
type messageReader struct {
	m    Message
	part partReader
	walk func(*strictjson.Cursor) error // read
}

func (r *messageReader) read(c *strictjson.Cursor) error {
	if err := c.Enter('{'); err != nil {
		return err
	}
	role, parts := false, false
	for c.More() {
		quoted, err := c.Value()
		if err != nil {
			return err
		}
		switch name := strictjson.Name(quoted); {
		case string(name) == "role" && !role:
			role, err = true, r.role(c)
		case string(name) == "parts" && !parts:
			parts, err = true, r.parts(c)
		default:
			err = r.extra(c, name)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case !role:
		return c.Fail("role is missing")
	case !parts:
		return c.Fail("parts is missing")
	case len(r.m.Extra) > 0:
		r.m.Extra = append(r.m.Extra, '}')
	}
	return c.Leave()
}

func (r *messageReader) role(c *strictjson.Cursor) error {
	v, err := c.Value()
	if err != nil {
		return err
	}
	if v[0] != '"' {
		return c.Fail("role is no string")
	}
	for _, known := range [...]Role{RoleUser, RoleAssistant, RoleTool} { // which take no memory
		if string(v[1:len(v)-1]) == string(known) {
			r.m.Role = known
			return nil
		}
	}
	r.m.Role = Role(strictjson.Unquote(v))
	return nil
}

func (r *messageReader) parts(c *strictjson.Cursor) error {
	if err := c.Enter('['); err != nil {
		return err
	}
	for c.More() {
		p, err := r.part.next(c)
		if err != nil {
			return err
		}
		r.m.Parts = append(r.m.Parts, p)
	}
	return c.Leave()
}

// extra keeps a member that this version doesn't know, beside others of its
// name. One of the message's own names must not come again, nor in another case.
func (r *messageReader) extra(c *strictjson.Cursor, name []byte) error {
	switch own := ownMember(name); {
	case own == string(name):
		return c.Fail("the member %q is there twice", name)
	case own != "":
		return c.Fail("the member %q is %q in another case", name, own)
	}
	value, err := c.Value()
	sep := byte(',')
	if len(r.m.Extra) == 0 {
		sep = '{'
	}
	r.m.Extra = append(strictjson.AppendString(append(r.m.Extra, sep), name), ':')
	r.m.Extra = append(r.m.Extra, value...)
	return err
}

// ownMember returns the member of a message that has the name, in any case;
// empty where none has.
func ownMember(name []byte) string {
	for _, own := range [...]string{"role", "parts"} {
		if strings.EqualFold(string(name), own) {
			return own
		}
	}
	return ""
}

// readPart reads a part by itself.
func readPart(b []byte) (p Part, err error) {
	r := new(partReader)
	err = strictjson.Walk(b, func(c *strictjson.Cursor) (err error) {
		p, err = r.next(c)
		return err
	})
	return p, err
}

// partReader reads one part after the other.
type partReader struct {
	room [8]strictjson.RawMember
	reader
}

func (r *partReader) next(c *strictjson.Cursor) (Part, error) {
	typ, whole, err := r.members(c)
	if err != nil {
		return nil, err
	}
	row := kindOf(strictjson.Name(typ))
	if row == nil {
		return Unknown{Type: strictjson.Unquote(typ), Raw: bytes.Clone(whole)}, nil
	}
	f := pass{do: decoding, r: &r.reader}
	f.over(row)
	return f.out, r.end(c)
}

// nextMedia is next of media within a part.
func (r *partReader) nextMedia(c *strictjson.Cursor) (m Media, err error) {
	typ, _, err := r.members(c)
	switch {
	case err != nil:
		return m, err
	case string(strictjson.Name(typ)) != m.kind():
		return m, c.Fail("it is of another type")
	}
	f := pass{do: decoding, r: &r.reader, changed: true}
	m.fields(&f)
	m, _ = f.out.(Media)
	return m, r.end(c)
}

// members reads those of a part, and returns its type, in quotes.
func (r *partReader) members(c *strictjson.Cursor) (typ, whole []byte, err error) {
	members, whole, err := c.Members(r.room[:0])
	if err != nil {
		return nil, nil, err
	}
	r.reader = reader{all: members}
	if typ = r.get("type"); len(typ) == 0 || typ[0] != '"' {
		return nil, nil, c.Fail("the part has no type")
	}
	return typ, whole, nil
}

// end returns what was wrong with a part.
func (r *partReader) end(c *strictjson.Cursor) error {
	if r.finish(); r.err != nil {
		return c.Fail("%v", r.err)
	}
	return nil
}

// reader turns the members of a part into its fields; the first error stays.
type reader struct {
	all []strictjson.RawMember
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// get returns a member's value, nil where there is none.
func (r *reader) get(name string) []byte {
	for i := range r.all {
		if string(r.all[i].Name) == name {
			return r.all[i].Value
		}
	}
	return nil
}

// field is get of a field's member. That name in another case is an error.
func (r *reader) field(name string) []byte {
	for i := range r.all {
		if got := r.all[i].Name; string(got) != name && strings.EqualFold(string(got), name) {
			r.fail("the member %q is %q in another case", got, name)
		}
	}
	return r.get(name)
}

// finish refuses what is wrong with the names beside that, equal ones.
func (r *reader) finish() {
	r.field("type")
	if name, twice := strictjson.Twice(r.all); twice {
		r.fail("the member %q is there twice", name)
	}
}

// text returns a string that has to be there.
func (r *reader) text(name string) string {
	if r.get(name) == nil {
		r.fail("%s is missing", name)
	}
	return r.str(name)
}

func (r *reader) str(name string) string {
	v := r.field(name)
	switch {
	case v == nil:
		return ""
	case v[0] != '"':
		r.fail("%s is no string", name)
		return ""
	}
	return strictjson.Unquote(v)
}

func (r *reader) raw(name string) json.RawMessage { return bytes.Clone(r.field(name)) }

func (r *reader) flag(name string) bool {
	switch string(r.field(name)) {
	case "true":
		return true
	case "", "false":
		return false
	}
	// Not false: a failure must not be read as a success.
	r.fail("%s is neither true nor false", name)
	return false
}

func (r *reader) bytes(name string) []byte {
	s := r.str(name)
	if s == "" {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		r.fail("%s: %w", name, err)
	}
	return b
}

// medias reads media within a part: each is a part of that kind.
func (r *reader) medias(name string) (all []Media) {
	v := r.field(name)
	if v == nil {
		return nil
	}
	var media partReader
	err := strictjson.Walk(v, func(c *strictjson.Cursor) error {
		if err := c.Enter('['); err != nil {
			return err
		}
		for c.More() {
			m, err := media.nextMedia(c)
			if err != nil {
				return err
			}
			all = append(all, m)
		}
		return c.Leave()
	})
	if err != nil {
		r.fail("%s: %w", name, err)
	}
	return all
}

func (r *reader) native(name string) *Native {
	v := r.field(name)
	if v == nil {
		return nil
	}
	n := new(Native)
	if err := strictjson.Read(v, n); err != nil {
		r.fail("%s: %w", name, err)
	}
	return n
}
