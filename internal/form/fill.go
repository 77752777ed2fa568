package form

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// Fill takes what was sent, and returns the JSON that it makes. Ok is false where
// something can't be JSON of its kind; then that field has a Fault.
func (f *Form) Fill(sent url.Values) (answer json.RawMessage, ok bool) {
	object := jsontree.New()
	ok = true
	for _, field := range f.Fields {
		field.Value = strings.ReplaceAll(sent.Get(field.Name), "\r\n", "\n")
		value := field.read()
		switch {
		case field.Fault != "":
			ok = false
		case !f.object:
			answer = value
		case value != nil:
			object.Set(field.member, value)
		}
	}
	if f.object {
		answer = object.Raw()
	}
	return answer, ok
}

// read returns the JSON of a field; nil where it is left out.
func (f *Field) read() json.RawMessage {
	text := strings.TrimSpace(f.Value)
	if text == "" {
		return f.empty()
	}
	switch f.Kind {
	case Line, Text:
		return quote(f.Value)
	case Number:
		if (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
		f.Fault = "must be a number, in digits"
	case Choice:
		for _, o := range f.Options {
			if o.Value == text {
				return o.json
			}
		}
		f.Fault = "must be one of the choices"
	case JSON:
		if json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
		f.Fault = `must be JSON: a text stands in "quotes", a list in [brackets]`
	}
	return nil
}

// empty returns what a field that is left empty stands for.
func (f *Field) empty() json.RawMessage {
	switch {
	case !f.required:
		return nil
	case f.null:
		return json.RawMessage("null")
	case f.Kind == Line || f.Kind == Text:
		return quote(f.Value)
	}
	f.Fault = "is required"
	return nil
}

func quote(s string) json.RawMessage {
	raw, err := jsontree.Encode(s)
	if err != nil { // a string always encodes
		return json.RawMessage(`""`)
	}
	return raw
}

// Blame shows faults beside the fields that they are about, and returns those
// that are about none.
func (f *Form) Blame(faults []misfit.Fault) (rest []misfit.Fault) {
	for _, fault := range faults {
		field := f.at(fault.Path)
		if field == nil {
			rest = append(rest, fault)
			continue
		}
		if field.Fault != "" {
			field.Fault += "; "
		}
		field.Fault += fault.Message
	}
	return rest
}

// at returns the field whose value a path lies in.
func (f *Form) at(path string) *Field {
	for _, field := range f.Fields {
		if path == field.Path || strings.HasPrefix(path, field.Path+"/") {
			return field
		}
	}
	return nil
}

func pointer(step string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
}
