package handle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/process"
	"github.com/fermata-ai/fermata/tool"
)

// CommandOptions configure a Command. Nil means the defaults.
type CommandOptions struct {
	// MaxOutput is how many bytes of output are kept in memory for the result,
	// and as many for what wasn't shown yet: the head and the tail of it, with
	// a line that tells how much is left out. Zero: DefaultMaxOutput.
	MaxOutput int
	// Protocol: the program speaks the protocol of [Command].
	Protocol bool
	// Terminal: the program runs in a terminal of that kind, and not with
	// pipes. Its content is the screen then.
	Terminal Terminal
	// Rows and Columns are the terminal's size; zero: DefaultRows and
	// DefaultColumns.
	Rows, Columns int
}

// DefaultMaxOutput is how many bytes of output a command keeps.
const DefaultMaxOutput = 64 << 10

// Exit is the output of a command.
type Exit struct {
	// ExitCode is -1 where a signal ended the program.
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"` // its name
	// Output is what the program wrote, as UTF-8: the standard output and the
	// standard error in one.
	Output  string `json:"output"`
	LeftOut int    `json:"left_out,omitempty"` // bytes of it that aren't kept
}

// Command is the Process that runs a program: [NewCommand] makes it. Its
// content is what the program writes, to the standard output or the standard
// error. An input is an object: "text" is written to the standard input as it
// is, so a line needs its "\n"; with "end" that is closed. An exit code other
// than 0 is a result like any other.
//
// # Protocol
//
// With CommandOptions.Protocol, lines of the standard output that are JSON
// objects tell how the call stands. Other lines are content. By "type":
//
//   - "running", also written "spawned": it runs. "content", a text, is added
//     to the content.
//   - "waiting": it waits for the answer to "question", which has "id", "text",
//     "schema" and "for" ("user", the default, or "assistant").
//   - "stopped": the call's result is "result", any JSON value, or "error":
//     {"message", "trace": [], "transient"}, or its message alone. The program
//     has a moment then to exit.
//   - "success" with "content", and "error" with "message", "trace" and
//     "transient": older forms of that.
//   - "needs_input" with "question": the program exits, and is to be started
//     again with the answer. See [Live].
//
// The program reads such lines, too: at first "start", with "arguments" and
// "answers", a list of {"id", "answer"}; then "input" with "input", and
// "answer" with "id" and "answer". A program that runs again, after a crash, gets
// its inputs from the first on, and each answer once it asks that question, by
// its id. One that exits without "stopped" has the
// result of any program.
type Command struct {
	launcher *Launcher
	checked  tool.Tool
	options  CommandOptions
}

// NewCommand returns a Command. The function returns the program for a call's
// arguments; In is what [tool.Func] takes. Its error is the call's result.
func NewCommand[In any](l *Launcher, s tool.Spec,
	program func(context.Context, In) (Program, error), o *CommandOptions) (*Command, error) {
	if l == nil || program == nil {
		return nil, fmt.Errorf("handle: command %q: it needs a launcher and a function", s.Name)
	}
	c := &Command{launcher: l}
	if o != nil {
		c.options = *o
	}
	var err error
	if c.options, err = c.options.sized(); err != nil {
		return nil, fmt.Errorf("handle: command %q: %w", s.Name, err)
	}
	if c.options.Protocol {
		s.MayPause = s.MayPause || !s.Effect.NeedsClaim()
		c.checked, err = chosen[In, json.RawMessage](s, program)
	} else {
		c.checked, err = chosen[In, Exit](s, program)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// sized returns the options with what they don't say filled in.
func (o CommandOptions) sized() (CommandOptions, error) {
	if o.MaxOutput == 0 {
		o.MaxOutput = DefaultMaxOutput
	}
	if o.Rows == 0 {
		o.Rows = DefaultRows
	}
	if o.Columns == 0 {
		o.Columns = DefaultColumns
	}
	switch {
	case o.MaxOutput < 1024:
		return o, fmt.Errorf("MaxOutput is %d, and has to be 1024 at least", o.MaxOutput)
	case o.Protocol && o.Terminal != nil:
		return o, errors.New("it has a Terminal, and the Protocol goes with pipes")
	case min(o.Rows, o.Columns) < 1 || max(o.Rows, o.Columns) > maxSide:
		return o, fmt.Errorf("its terminal has %d rows and %d columns: from 1 to %d are allowed",
			o.Rows, o.Columns, maxSide)
	}
	return o, nil
}

// Spec returns the command's spec, with the schemas of its types.
func (c *Command) Spec() tool.Spec { return c.checked.Spec() }

type choiceKey struct{}

// chosen returns a tool that chooses the program for its arguments. It is never
// shown to anyone: it reads arguments as every tool does.
func chosen[In, Out any](s tool.Spec,
	program func(context.Context, In) (Program, error)) (tool.Tool, error) {
	return tool.Func(s, func(ctx context.Context, in In) (tool.Result[Out], error) {
		p, err := program(ctx, in)
		if err != nil {
			return nil, err
		}
		*ctx.Value(choiceKey{}).(*Program) = p
		var none Out
		return tool.Done(none), nil
	})
}

// Start starts the program.
func (c *Command) Start(ctx context.Context, s Start) (Body, error) {
	var p Program
	if _, err := c.checked.Execute(context.WithValue(ctx, choiceKey{}, &p), s.Call); err != nil {
		return nil, err
	}
	program, err := p.resolve()
	if err != nil {
		return nil, err
	}
	if call := s.Call; call.Session != "" {
		program.Body, program.Fence = call.Session+"/"+call.ID, call.Fence
	}
	body, err := c.start(ctx, program, s)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, startError(p.Path, err)
	}
	return body, nil
}

func (c *Command) start(ctx context.Context, p process.Program, s Start) (Body, error) {
	if c.options.Terminal != nil {
		return startScreened(ctx, c.launcher.inner, p, c.options)
	}
	r := newRunning(c.options)
	if err := r.start(ctx, c.launcher.inner, p); err != nil {
		return nil, err
	}
	if c.options.Protocol {
		r.greet(s)
	}
	return r, nil
}

// InputSchema returns the schema of one input.
func (c *Command) InputSchema() json.RawMessage {
	switch {
	case c.options.Protocol:
		return json.RawMessage(`{}`)
	case c.options.Terminal != nil:
		return json.RawMessage(typedSchema)
	}
	return json.RawMessage(inputSchema)
}

// CheckInput returns what is wrong with an input.
func (c *Command) CheckInput(in json.RawMessage) error {
	if !json.Valid(in) {
		return errors.New("the input is not JSON")
	}
	var err error
	switch {
	case c.options.Protocol:
	case c.options.Terminal != nil:
		_, err = readTyped(in)
	default:
		_, err = readInput(in)
	}
	return err
}
