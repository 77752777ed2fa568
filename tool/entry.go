package tool

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/gotype"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/llm"
)

// entry is a tool as the box knows it.
type entry struct {
	tool   Tool
	spec   Spec // as the tool gave it once, its schemas in their normal form
	checks checks
	input  *schema.Schema
	output *schema.Schema // nil: what the tool makes needs no check
	noText bool           // the tool's output is never a string
	reads  readers
	// questions are the tool's, by their names; nil where they aren't known
	questions map[string]questionReads
	typed     *typed // what the tool is, or wraps, if arguments go to it as they are
	body      userCode
	// words is the form that errors of the tool have for the model; nil: none
	words func(text string) string
}

// newEntry asks a tool for its spec and checks it. The entry holds the spec,
// also with an error.
func newEntry(t Tool) (e *entry, err error) {
	e = &entry{tool: t, spec: t.Spec()}
	s := &e.spec
	if err := checkName(s.Name); err != nil {
		return e, err
	}
	if !utf8.ValidString(s.Description) {
		return e, fmt.Errorf("description: %q is not valid UTF-8", excerpt.Of(s.Description))
	}
	if s.Input, err = schema.GivenInput(s.Input); err != nil {
		return e, fmt.Errorf("input: %w", err)
	}
	if e.input, err = schema.Compile(s.Input); err != nil {
		return e, fmt.Errorf("input: %w", err)
	}
	if s.Output, err = schema.GivenOutput(s.Output); err != nil {
		return e, fmt.Errorf("output: %w", err)
	}
	if e.output, err = schema.Compile(s.Output); err != nil {
		return e, fmt.Errorf("output: %w", err)
	}
	e.checks = checks{input: s.Input, output: s.Output}
	e.noText = e.output.NeverText()
	e.reads.arguments = gotype.SchemaReader(e.input)
	e.recognize()
	if w, ok := As[interface{ ErrorWords(string) string }](t); ok { // of package tool/wait
		e.words = w.ErrorWords
	}
	e.body = withCall(apart(t.Execute))
	if own, ok := t.(*typed); ok && own == e.typed {
		// A typed tool gives its function the call itself, and returns what is
		// its own.
		e.body = own.Execute
	}
	if s.Mailbox, err = checkMailbox(s); err != nil {
		return e, err
	}
	if err := checkCancel(s); err != nil {
		return e, err
	}
	switch s.Effect {
	case Once, Idempotent, ReadOnly:
	default:
		return e, fmt.Errorf("unknown effect %q", s.Effect)
	}
	if err := s.Scheduling.check(); err != nil {
		return e, err
	}
	if s.Timeout < 0 {
		return e, fmt.Errorf("the timeout %v is negative", s.Timeout)
	}
	return e, nil
}

// recognize takes over what is known of a typed tool, which the entry's tool
// is, or wraps: as far as the wrapper's schemas are the same.
func (e *entry) recognize() {
	own, ok := As[*typed](e.tool)
	if !ok {
		return
	}
	if bytes.Equal(own.spec.Input, e.spec.Input) {
		e.typed, e.input = own, own.input
		e.checks.input, e.reads.arguments = own.exact.input, own.reads.arguments
		e.questions = own.questions
	}
	if bytes.Equal(own.spec.Output, e.spec.Output) {
		e.checks.output, e.reads.output = own.exact.output, own.reads.output
	}
	if e.tool == Tool(own) && own.total {
		e.output = nil
	}
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func checkName(name string) error {
	if name == "" {
		return errors.New("it has no name")
	}
	if !goodName.MatchString(name) {
		return fmt.Errorf("the name %q is not 1 to 64 letters, digits, '_' or '-'",
			excerpt.Of(name))
	}
	return nil
}

// pauseHint keeps a model from calling a tool again while it waits for it.
const pauseHint = "This call may take long to finish. Do not call it again meanwhile: its result " +
	"will come."

func (e *entry) def() llm.ToolDef {
	d := llm.ToolDef{Name: e.spec.Name, Description: e.spec.Description, Input: e.spec.Input,
		Output: e.spec.Output}
	_, acts := As[Acting](e.tool)
	if e.spec.MayPause && !acts && !strings.Contains(d.Description, pauseHint) {
		d.Description = strings.TrimSpace(d.Description + " " + pauseHint)
	}
	return d
}
