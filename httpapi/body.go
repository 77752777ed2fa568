package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/gotype"
	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/internal/schema"
)

// form is what a body has to be: the JSON of a Go type, and nothing else.
type form struct {
	name   string // of the type
	schema json.RawMessage
	check  *schema.Schema
}

// shape is what an answer is: the JSON of a Go type.
type shape struct {
	name   string
	schema json.RawMessage
}

// forms keeps the first error of several forms and shapes.
type forms struct{ err error }

func formOf[T any](f *forms) *form {
	in, err := gotype.NewInput[T](nil)
	if err != nil {
		f.err = errors.Join(f.err, err)
		return nil
	}
	return &form{nameOf[T](), in.Told, in.Check}
}

func shapeOf[T any](f *forms) *shape {
	out, err := gotype.NewOutput[T](nil)
	if err != nil {
		f.err = errors.Join(f.err, err)
		return nil
	}
	return &shape{nameOf[T](), opened(out.Told)}
}

// nameOf returns what a type is called in the description: its Go name, with a
// capital.
func nameOf[T any]() string {
	name := reflect.TypeFor[T]().Name()
	return strings.ToUpper(name[:1]) + name[1:]
}

// receive decodes the request's body into what is the Go type of its form. An
// empty body is {}.
func (v *visit) receive(into any) error {
	defer v.patient() // the store may take longer than the client may
	if err := errors.Join(httpin.Plain(v.w, v.r), httpin.IsJSON(v.r)); err != nil {
		return err
	}
	body, err := v.h.bodies.Read(v.w, v.r)
	if err != nil {
		return err
	}
	body = httpin.Unmarked(body)
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	} else if v.r.Header.Get("Content-Type") == "" {
		return httpin.Unsupported("the body has no type; send Content-Type: application/json")
	}
	return v.route.body.read(body, into)
}

// read decodes JSON that fits the form. What doesn't fit is told place by place.
func (f *form) read(body []byte, into any) error {
	err := f.check.Validate(body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return errors.Join(refuse("invalid", "the body does not fit: "+err.Error()), err)
	}
	return nil
}

// parameters are the request's query.
type parameters struct {
	values url.Values
	err    error // the last refusal
}

// parameters reads the request's query. One that the route doesn't have is
// refused: misspelt, it would go unseen.
func (v *visit) parameters() *parameters {
	values, err := url.ParseQuery(v.r.URL.RawQuery)
	p := &parameters{values, nil}
	if err != nil {
		p.err = refuse("bad_query", "the query can't be read")
		return p
	}
	for name, all := range values {
		if !v.route.takes(name) && !(v.h.config.Others && (name == "user" || name == "all")) {
			p.err = refuse("bad_query", fmt.Sprintf("there is no parameter %.40q here", name))
		} else if len(all) > 1 {
			p.err = refuse("bad_query", fmt.Sprintf("the parameter %q is there %d times", name, len(all)))
		}
	}
	return p
}

func (r *route) takes(name string) bool {
	for _, p := range r.query {
		if p.name == name {
			return true
		}
	}
	return false
}

func (p *parameters) text(name string) string { return p.values.Get(name) }

// number returns one between bounds.
func (p *parameters) number(name string, otherwise, least, most int) int {
	text := p.values.Get(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		p.err = refuse("bad_query", fmt.Sprintf("the parameter %q is a number from %d to %d",
			name, least, most))
	}
	return n
}

func (p *parameters) flag(name string, otherwise bool) bool {
	switch p.values.Get(name) {
	case "":
		return otherwise
	case "true":
		return true
	case "false":
		return false
	}
	p.err = refuse("bad_query", fmt.Sprintf("the parameter %q is true or false", name))
	return otherwise
}

// escape makes an id one segment of a path.
func escape(id string) string { return url.PathEscape(id) }
