package schema

import (
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Models write an array or an object now and then as a string that holds its
// JSON: {"ids":"[1,2]"}, or all of the arguments as one string. Such a string
// is decoded once more: only after it was refused, only where the schema wants
// an array or an object, and its content has to be as strict, and fit as well,
// as anything else. Nothing else is guessed. The decoded form is derived anew
// each time; the session stores what the model wrote.

// Arguments parses a value, and returns it in the form that it is to be decoded
// from, if it fits: as it is, in most cases. Otherwise the error is a
// *misfit.Error, and the value is the one that was given.
func (s *Schema) Arguments(value []byte) (strictjson.Doc, error) {
	defer strictjson.Turn(len(value))()
	d, err := strictjson.Parse(value, strictjson.Strict(true))
	if err != nil {
		return d, notStrict(err)
	}
	bad, encoded := s.check(d)
	if len(encoded) == 0 {
		return d, orNil(bad)
	}
	text, ok := decodedOnce(d, encoded)
	if !ok {
		return d, bad
	}
	derived, err := strictjson.Parse(text, strictjson.Strict(true))
	if err != nil {
		return d, notStrict(err)
	}
	if bad, _ := s.check(derived); bad != nil {
		return d, bad
	}
	return derived, nil
}

// decodedOnce returns the text with the strings at those places replaced by
// what they hold. It returns false if one of them holds no array or object.
func decodedOnce(d strictjson.Doc, paths [][]string) (text string, ok bool) {
	root := places{}
	for _, path := range paths {
		root.add(path)
	}
	o := onceMore{edit: strictjson.NewEdit(d.Text), ok: true}
	o.value(d.Root, root)
	return o.edit.Result(), o.ok
}

// places is a place in a value, with the places below it that are of interest.
// One without any is of interest itself.
type places map[string]places

func (p places) add(path []string) {
	for _, step := range path {
		if p[step] == nil {
			p[step] = places{}
		}
		p = p[step]
	}
}

// onceMore goes through a tree up to the places that it is told.
type onceMore struct {
	edit *strictjson.Edit
	ok   bool
}

// value goes through a value of which here is of interest; nil: nothing is.
func (o *onceMore) value(v any, here places) {
	if here == nil || !o.ok {
		return
	}
	switch v := v.(type) {
	case strictjson.String:
		if len(here) == 0 {
			o.decode(v)
		}
	case strictjson.Object:
		for _, m := range v.Members {
			o.value(m.Value, here[m.Name])
		}
	case strictjson.Array:
		if len(here) > 0 {
			for i := range v {
				o.value(v[i], here[strconv.Itoa(i)])
			}
		}
	}
}

// decode puts the text that a string holds in the string's place.
func (o *onceMore) decode(s strictjson.String) {
	text := strings.TrimSpace(s.Text)
	if !strings.HasPrefix(text, "[") && !strings.HasPrefix(text, "{") {
		o.ok = false
		return
	}
	if _, err := strictjson.Parse(text, strictjson.Strict(true)); err != nil {
		o.ok = false
		return
	}
	o.edit.ReplaceString(s, text)
}
