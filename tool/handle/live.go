package handle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/usererr"
	"github.com/fermata-ai/fermata/tool"
)

// LiveOptions configure a tool of Live. Nil means the defaults.
type LiveOptions struct {
	// Grace is how long a body may take to end when its call's context has
	// ended for that cause, before it is ended by force; nil: DefaultGrace.
	// Zero or less is at once. A body whose call's lease is lost has none: it is
	// ended before another process may begin the call anew. Nor does it outlast
	// three quarters of [runner.Options].CancelGrace and CloseTimeout.
	Grace func(cause error) time.Duration
}

// DefaultGrace is how long a body may take to end.
const DefaultGrace = 5 * time.Second

// Live returns the tool of a Process. A call of it starts a body, shows its
// content, hands it input, and returns what it comes to. When the call's
// context ends, the body is stopped, and the call returns when it is gone.
//
// A body that ends with a question pauses its call, and another one is started
// with the answer, if that does no harm: the tool's Effect is ReadOnly or
// Idempotent. Otherwise that is the call's error.
func Live(p Process, o *LiveOptions) (tool.Tool, error) {
	if p == nil {
		return nil, errors.New("handle: Live: the process is nil")
	}
	l := &live{Process: p, grace: func(error) time.Duration { return DefaultGrace }}
	if o != nil && o.Grace != nil {
		l.grace = o.Grace
	}
	return l, nil
}

type live struct {
	Process
	grace func(error) time.Duration
}

// Spec is the process's, with its input as an event of its calls.
func (l *live) Spec() tool.Spec {
	s := l.Process.Spec()
	s.MayPause = true
	if len(l.InputSchema()) > 0 {
		s.Mailbox = append(slices.Clip(s.Mailbox), tool.MailboxEvent{Name: tool.InputEvent})
	}
	return s
}

// Execute is the body of a call. It waits for the three goroutines that it has:
// one shows content, one hands over input, one stops the body.
func (l *live) Execute(ctx context.Context, call tool.Call) (tool.Execution, error) {
	answers, err := answersOf(call)
	if err != nil {
		return tool.Execution{}, err
	}
	body, err := l.Start(ctx, Start{Call: call, Answers: answers})
	if err != nil {
		return tool.Execution{}, err
	}
	body = safe{body}
	host := hostOf(call)
	lasting, end := context.WithCancelCause(ctx)
	input, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		<-lasting.Done()
		if cause := context.Cause(lasting); cause != errEnded {
			stopped <- l.stop(call, body, cause)
		}
		close(stopped)
	}()
	go func() {
		defer close(input)
		if err := feed(lasting, call, host, body); err != nil {
			end(err)
		}
	}()
	if err = show(lasting, call, host, body); err == nil {
		err = errEnded
	}
	end(err) // where the context has ended already, its cause stays
	err = <-stopped
	<-input
	if err != nil {
		return tool.Execution{}, err
	}
	ended, err := body.Result()
	if err != nil {
		return tool.Execution{}, err
	}
	return l.execution(ended, answers)
}

// stop ends a body whose call's context has ended. Its grace ends with what the
// runtime allows: none is left once the call's lease is lost. It returns the
// cause, and what went wrong besides.
func (l *live) stop(call tool.Call, body Body, cause error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w; and to stop the body panicked: %v", cause, p)
		}
	}()
	grace := l.grace(cause)
	if host, ok := call.Host.(tool.Live); ok {
		over, done := host.Lasting(call, cause)
		defer done()
		if over.Err() != nil {
			grace = 0
		}
		stop := context.AfterFunc(over, func() {
			defer func() { _ = recover() }() // the call below tells of it
			body.Stop(0)
		})
		defer stop()
	}
	body.Stop(grace)
	return cause
}

// safe is a body whose methods return an error in place of a panic. Otherwise
// one in Next would leave the body running, and one in Input end the process.
type safe struct{ Body }

func (b safe) Next(ctx context.Context) (_ Update, err error) {
	defer recovered("Next", &err)
	u, err := b.Body.Next(ctx)
	return u, usererr.Use(err)
}

func (b safe) Input(ctx context.Context, in Input) (err error) {
	defer recovered("Input", &err)
	return usererr.Use(b.Body.Input(ctx, in))
}

func recovered(method string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the body's %s panicked: %v", method, p)
	}
}

// errEnded is the cause of a body's context that has ended by itself.
var errEnded = errors.New("handle: the body has ended")

// show shows what is new, until the body has ended.
func show(ctx context.Context, call tool.Call, host Host, body Body) error {
	for {
		u, err := body.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && host != nil {
			err = host.Update(ctx, call, u)
		}
		if err != nil {
			return err
		}
	}
}

// feed hands input over, until the context ends or none comes.
func feed(ctx context.Context, call tool.Call, host Host, body Body) error {
	for {
		var in Input
		err := io.EOF
		if host != nil {
			in, err = host.NextInput(ctx, call)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			return told(ctx, call, host, body.Input(ctx, Input{}))
		case err != nil:
			return err
		}
		if err := told(ctx, call, host, body.Input(ctx, in)); err != nil {
			return err
		}
	}
}

// told tells in the content of an input that was not taken.
func told(ctx context.Context, call tool.Call, host Host, err error) error {
	if err == nil || host == nil || ctx.Err() != nil {
		return nil
	}
	return host.Update(ctx, call, Update{Content: fmt.Sprintf("\n[an input was not taken: %v]\n", err)})
}

// execution returns what a body's end makes of the call.
func (l *live) execution(ended Ended, answers []Answer) (tool.Execution, error) {
	q := ended.Question
	if q == nil {
		return tool.Execution{Output: ended.Output}, nil
	}
	spec := l.Spec()
	if spec.Effect.NeedsClaim() {
		return tool.Execution{}, fmt.Errorf("it ended to ask %q, and can't be run again with the "+
			"answer: its effect is neither read-only nor idempotent", q.Text)
	}
	asked := *q
	if asked.ID == "" {
		asked.ID = madeID(len(answers) + 1)
	}
	data, err := json.Marshal(Asked{Question: asked, Answers: answers})
	if err != nil {
		return tool.Execution{}, err
	}
	reason := tool.ReasonInput
	if q.For == Assistant {
		reason = tool.ReasonAssistant
	}
	return tool.Execution{Await: &tool.Await{Reason: reason, Mode: tool.ModeReenter,
		Prompt: q.Text, Schema: q.Schema, Data: data}}, nil
}

// answersOf returns the answers to the questions with which earlier bodies of
// the call ended.
func answersOf(call tool.Call) ([]Answer, error) {
	if call.Answer == nil {
		return nil, nil
	}
	var asked Asked
	if err := json.Unmarshal(call.Answer.Data, &asked); err != nil {
		return nil, fmt.Errorf("the question that was stored with the pause can't be read: %w", err)
	}
	return append(asked.Answers, Answer{asked.Question.ID, call.Answer.Payload}), nil
}
