package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/gotype"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/llm"
)

// box is the machine behind a Registry. Its exported methods are for package
// internal/toolbox, by which the runner uses it. It does not change once it is
// made, but for the cache of schemas, which has a lock of its own: any
// goroutine may use it.
type box struct {
	limits  Limits
	schemas schema.Cache // of what tools ask
	names   []string     // in order
	entries map[string]*entry
	defs    []llm.ToolDef
}

// defaultResult is what Limits.Result is if it isn't set.
const defaultResult = 1 << 20

func newBox(l Limits, tools []Tool) (*box, error) {
	l.Arguments, l.Result = cmp.Or(max(l.Arguments, 0), 256<<10), cmp.Or(max(l.Result, 0), defaultResult)
	l.Mail = cmp.Or(max(l.Mail, 0), 1000)
	b := &box{limits: l, entries: make(map[string]*entry, len(tools))}
	for i, t := range tools {
		if isNil(t) {
			return nil, fmt.Errorf("tool: registry: the tool at %d is nil", i)
		}
		e, err := newEntry(t)
		if err != nil {
			return nil, fmt.Errorf("tool: registry: the tool at %d, %q: %w", i, e.spec.Name, err)
		}
		name := e.spec.Name
		if b.entries[name] != nil {
			return nil, fmt.Errorf("tool: registry: the tools at %d and %d are both called %q",
				slices.Index(b.names, name), i, name)
		}
		b.names = append(b.names, name)
		b.entries[name] = e
		b.defs = append(b.defs, e.def())
	}
	return b, nil
}

func isNil(t Tool) bool {
	if t == nil {
		return true
	}
	v := reflect.ValueOf(t)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Limits returns the limits, defaults filled in.
func (b *box) Limits() Limits { return b.limits }

// Names lists the tools' names in order.
func (b *box) Names() []string { return slices.Clone(b.names) }

// Defs returns what a model is told of the tools, in order.
func (b *box) Defs() []llm.ToolDef { return llm.Request{Tools: b.defs}.Clone().Tools }

// Spec returns a copy of a tool's Spec.
func (b *box) Spec(name string) (Spec, bool) {
	e, ok := b.entries[name]
	if !ok {
		return Spec{}, false
	}
	return e.spec.clone(), true
}

// Tool returns the tool called name; nil: there is none.
func (b *box) Tool(name string) Tool {
	if e, ok := b.entries[name]; ok {
		return e.tool
	}
	return nil
}

// Declared returns what a tool's Spec declares that matters to its open calls.
// It is Spec without the schemas, which are copied.
func (b *box) Declared(name string) (effect Effect, mayPause, known bool) {
	e, ok := b.entries[name]
	if !ok {
		return Once, false, false
	}
	return e.spec.Effect, e.spec.MayPause, true
}

// Scheduling returns how a tool's calls run beside others.
func (b *box) Scheduling(name string) (s Scheduling) {
	if e, ok := b.entries[name]; ok {
		s = e.spec.Scheduling
	}
	return s
}

// Checks returns the schemas that a tool's arguments and outputs have to fit.
func (b *box) Checks(name string) (input, output json.RawMessage) {
	if e, ok := b.entries[name]; ok {
		return e.checks.input, e.checks.output
	}
	return nil, nil
}

// Readers returns what reads a tool's arguments and outputs as the tool will. A
// reader is nil where it isn't known how the tool reads.
func (b *box) Readers(name string) (arguments, output *gotype.Reader) {
	if e, ok := b.entries[name]; ok {
		return e.reads.arguments, e.reads.output
	}
	return nil, nil
}

// Question returns the schema that answers to one of a tool's questions have to
// fit, and what reads them as the tool will; nil where the question isn't
// known.
func (b *box) Question(name, question string) (schema json.RawMessage, reader *gotype.Reader) {
	if e, ok := b.entries[name]; ok {
		if question, ok = only(e.questions, question); ok {
			q := e.questions[question]
			return q.schema, q.reader
		}
	}
	return nil, nil
}

// Mailbox returns the events that a tool takes. The list is the box's own.
func (b *box) Mailbox(name string) []MailboxEvent {
	if e, ok := b.entries[name]; ok {
		return e.spec.Mailbox
	}
	return nil
}

// EventReader returns what reads an event's payload as the tool will; nil where
// it isn't known how the tool reads.
func (b *box) EventReader(name, event string) *gotype.Reader {
	for _, e := range b.Mailbox(name) {
		if e.Name == event {
			return e.reads
		}
	}
	return nil
}

// ReadsItself reports whether code of the tool's own reads its arguments: a
// method of their type. Prepare runs it, and so may take its time then, or end
// the goroutine.
func (b *box) ReadsItself(name string) bool {
	e, ok := b.entries[name]
	return ok && e.typed != nil && e.reads.arguments.Foreign()
}

// Derived returns edited arguments in the form that a tool is given them; as
// they are, if they don't fit. See [schema.Schema.Arguments].
func (b *box) Derived(name string, args json.RawMessage) json.RawMessage {
	if e, ok := b.entries[name]; ok {
		if derived, err := e.input.Arguments(args); err == nil && derived.Text != string(args) {
			return json.RawMessage(derived.Text)
		}
	}
	return args
}

// Prepare finds the tool of a call and checks the call's arguments. The error
// is a *Refusal.
func (b *box) Prepare(c Call) (Call, error) {
	e, ok := b.entries[c.Tool]
	if !ok {
		return c, b.unknown(c.Tool)
	}
	c, err := b.check(e, c)
	if err == nil {
		c.Effect = e.spec.Effect
	}
	return c, err
}

// PrepareAnswered is Prepare for a call whose answer is its output. The work is
// done; so its arguments are not checked again, by a schema that may have
// changed since. Layers see them in the form that they saw before, as far as
// they fit.
func (b *box) PrepareAnswered(c Call) (Call, error) {
	e, ok := b.entries[c.Tool]
	if !ok {
		return c, b.unknown(c.Tool)
	}
	if schema.IsNull(c.Arguments) {
		c.Arguments = json.RawMessage("{}")
	}
	c.Arguments, c.Effect = b.Derived(c.Tool, c.Arguments), e.spec.Effect
	return c, nil
}

// check returns the call with its arguments marked as checked, in the form that
// fits.
func (b *box) check(e *entry, c Call) (Call, error) {
	if n := len(c.Arguments); n > b.limits.Arguments && !c.isChecked() {
		return c, e.refused(&Refusal{Kind: ArgumentsTooLarge, Tool: c.Tool, Text: fmt.Sprintf(
			"The arguments of %s have %d bytes, at most %d are taken, and it was not run.",
			e.spec.Name, n, b.limits.Arguments)})
	}
	c, err := c.checkedBy(e.input, e.typed)
	if err != nil {
		err = e.refused(invalidArguments(e.spec.Name, err))
	}
	return c, err
}

// refused returns a refusal in the form that errors of the tool have.
func (e *entry) refused(err error) error {
	if r, ok := err.(*Refusal); ok && e.words != nil {
		own := *r
		own.Text = e.words(r.Text)
		return &own
	}
	return err
}

const maxListed = 50 // names in a refusal

// unknown returns the refusal of a call of a tool that is not there. Its text
// lets the model go on.
func (b *box) unknown(name string) *Refusal {
	var text strings.Builder
	fmt.Fprintf(&text, "There is no tool %q, and nothing was run.", excerpt.Of(name))
	if near, ok := schema.Nearest(name, b.names); ok {
		fmt.Fprintf(&text, " Did you mean %s?", near)
	}
	switch n := len(b.names); {
	case n == 0:
		text.WriteString(" There are no tools.")
	case n <= maxListed:
		fmt.Fprintf(&text, " The tools are: %s.", strings.Join(b.names, ", "))
	default:
		fmt.Fprintf(&text, " Some of the %d tools are: %s.", n,
			strings.Join(b.names[:maxListed], ", "))
	}
	return &Refusal{Kind: UnknownTool, Tool: excerpt.Of(name), Text: text.String()}
}

// run checks a call and runs its tool once.
func (b *box) run(ctx context.Context, c Call) (Execution, error) {
	c, err := b.Prepare(c)
	if err != nil {
		return Execution{}, err
	}
	exec, _, err := b.Enter(ctx, c.Tool, c, nil)
	return exec, err
}
