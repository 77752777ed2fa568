package ask

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
)

// Whether any answer fits a form is found out by making one. A model that asks
// for a number from 10 to 5 would otherwise have a person sit before a form
// that takes nothing.

// samples are texts of each format that a form may have.
var samples = map[string]string{
	"date": "2026-03-01", "time": "12:00:00Z", "date-time": "2026-03-01T12:00:00Z",
	"email": "a@example.com", "uri": "https://example.com/",
}

func formats() []string { return slices.Sorted(maps.Keys(samples)) }

// witness returns an answer that fits the form, as far as its parts do.
func (n *node) witness(path string) (json.RawMessage, error) {
	switch n.kind {
	case "object":
		o := jsontree.New()
		for _, m := range n.members {
			sample, err := m.node.witness(join(path, m.name))
			if err != nil {
				return nil, err
			}
			o.Set(m.name, sample)
		}
		return o.Raw(), nil
	case "array":
		return n.list(path)
	}
	fit, err := n.fitting(path, 1)
	if err != nil {
		return nil, err
	}
	return fit[0], nil
}

// list returns a list of as many items as there have to be, and one at least.
func (n *node) list(path string) (json.RawMessage, error) {
	some := max(1, n.minItems)
	all := make([]any, some)
	if n.distinct {
		fit, err := n.items.fitting(join(path, "[]"), some)
		if err != nil {
			return nil, err
		}
		for i := range all {
			all[i] = fit[i]
		}
		return jsontree.Text(all), nil
	}
	sample, err := n.items.witness(join(path, "[]"))
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = sample
	}
	return jsontree.Text(all), nil
}

// fitting returns so many different values that fit a text, a number or a
// boolean.
func (n *node) fitting(path string, some int) (fit []json.RawMessage, err error) {
	check, err := schema.Compile(n.raw)
	if err != nil {
		return nil, at(path, "%w", err)
	}
	for _, v := range n.candidates() {
		same := func(f json.RawMessage) bool { return string(f) == string(v) }
		if err = check.ValidateResult(v); err == nil && !slices.ContainsFunc(fit, same) {
			if fit = append(fit, v); len(fit) == some {
				return fit, nil
			}
		}
	}
	if some > 1 {
		return nil, at(path, "there are %d different answers, and %d are wanted", len(fit), some)
	}
	return nil, at(path, "no answer would fit it: %w", err)
}

// candidates are values of which one fits, if any does, but for forms in which
// several bounds leave hardly any room: those may be refused.
func (n *node) candidates() (all []json.RawMessage) {
	switch {
	case n.enum != nil:
		return n.enum
	case n.kind == "boolean":
		return []json.RawMessage{json.RawMessage("true")}
	case n.kind == "string":
		return n.texts()
	}
	for _, b := range []bound{n.least, n.most} {
		if b.text != "" {
			all = append(all, json.RawMessage(b.text)) // also one that no float64 is
		}
	}
	for _, f := range n.numbers() {
		if n.kind == "integer" {
			f = math.Round(f)
		}
		if !math.IsInf(f, 0) && !math.IsNaN(f) {
			all = append(all, json.RawMessage(strconv.FormatFloat(f, 'f', -1, 64)))
		}
	}
	return all
}

// numbers are those at the edges of what is taken, and in between.
func (n *node) numbers() []float64 {
	all := []float64{0}
	low, high := n.least.text != "", n.most.text != ""
	if low {
		f := n.least.n
		all = append(all, math.Ceil(f), math.Floor(f)+1, math.Nextafter(f, math.Inf(1)))
	}
	if high {
		f := n.most.n
		all = append(all, math.Floor(f), math.Ceil(f)-1, math.Nextafter(f, math.Inf(-1)))
	}
	if low && high {
		all = append(all, n.least.n/2+n.most.n/2)
	}
	if s := n.step; s > 0 {
		for _, f := range slices.Clone(all) {
			for _, f := range []float64{math.Ceil(f/s) * s, math.Floor(f/s) * s} {
				// Three times 0.1 is 0.3 in the digits that a person would write.
				short, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 15, 64), 64)
				all = append(all, f, short)
			}
		}
	}
	return all
}

// texts are those of the format, and of the least length.
func (n *node) texts() (all []json.RawMessage) {
	pad := strings.Repeat("x", n.minText)
	words := []string{samples[n.format]}
	switch n.format {
	case "":
		words = []string{"x", pad}
	case "email":
		words = append(words, pad+"@example.com", "x@"+strings.Repeat("x.", n.minText/2)+"com")
	case "uri":
		words = append(words, samples[n.format]+pad, "a:"+strings.Repeat("x", max(n.minText-2, 1)))
	}
	for _, w := range words {
		if text, err := jsontree.Encode(w); err == nil {
			all = append(all, text)
		}
	}
	return all
}

// field is something that a person is asked for, in words.
type field struct {
	name     string
	about    string
	what     string
	optional bool
}

func (f field) String() string {
	s := f.name + " (" + f.what
	if f.optional {
		s += ", optional"
	}
	s += ")"
	if f.about != "" {
		s += ": " + f.about
	}
	return s
}

// fields are those of an object and of the objects in it.
func (n *node) fields(path string, optional bool) (all []field) {
	for _, m := range n.members {
		name := join(path, m.name)
		f := field{name, m.node.about, m.node.words(), optional || !m.required}
		if m.node.kind != "object" {
			all = append(all, f)
			continue
		}
		all = append(all, m.node.fields(name, f.optional)...)
	}
	return all
}

// words say what kind of answer fits.
func (n *node) words() string {
	switch {
	case n.enum != nil:
		all := make([]string, len(n.enum))
		for i, v := range n.enum {
			all[i] = string(v)
			var s string
			if json.Unmarshal(v, &s) == nil {
				all[i] = s
			}
		}
		return "one of: " + strings.Join(all, ", ")
	case n.kind == "array" && n.items.kind == "object":
		var all []string
		for _, f := range n.items.fields("", false) {
			all = append(all, f.name+" ("+f.what+")")
		}
		return "list, each with " + strings.Join(all, ", ")
	case n.kind == "array":
		return "list, each " + n.items.words()
	case n.kind == "string" && n.format != "":
		return map[string]string{"date": "date, as 2026-03-01", "time": "time, as 12:00:00Z",
			"date-time": "date and time, as 2026-03-01T12:00:00Z", "email": "email address",
			"uri": "web address"}[n.format]
	case n.kind == "string":
		return "text"
	case n.kind == "boolean":
		return "yes or no"
	}
	what := "number"
	if n.kind == "integer" {
		what = "whole number"
	}
	return what + n.between()
}

// between says which numbers fit.
func (n *node) between() string {
	low, high := n.least, n.most
	switch {
	case low.text != "" && high.text != "" && !low.open && !high.open:
		return fmt.Sprintf(", %s to %s", low.text, high.text)
	case low.text == "" && high.text == "":
		return ""
	}
	var all []string
	for _, b := range []struct {
		bound
		in, out string
	}{{low, "at least", "above"}, {high, "at most", "below"}} {
		if b.text != "" {
			word := b.in
			if b.open {
				word = b.out
			}
			all = append(all, word+" "+b.text)
		}
	}
	return ", " + strings.Join(all, " and ")
}
