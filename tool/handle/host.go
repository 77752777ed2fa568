package handle

import (
	"context"

	"github.com/fermata-ai/fermata/tool"
)

// runtime is the Host of a body where the call's own Host is the runner's: it
// gathers what the body has produced, and reads its input from the call's
// events. Its two methods are called by one goroutine each, or by feed where an
// input was not taken; so content has a lock.
type runtime struct {
	tool.Live
	content gathered
	input   []tool.Mail // read, and not handed over
	last    int         // the number of the last event that was read
}

// hostOf returns how a call's body reaches the runtime; nil: it can't.
func hostOf(c tool.Call) Host {
	if h, ok := c.Host.(Host); ok {
		return h
	}
	if l, ok := c.Host.(tool.Live); ok {
		return &runtime{Live: l}
	}
	return nil
}

// Update adds to what the body has produced.
func (r *runtime) Update(ctx context.Context, c tool.Call, u Update) error {
	r.content.add(u, func(all tool.Content) { r.Produce(ctx, c, all) })
	return nil
}

// NextInput returns the input of the next event that is one.
func (r *runtime) NextInput(ctx context.Context, c tool.Call) (Input, error) {
	for {
		for len(r.input) > 0 {
			m := r.input[0]
			r.input = r.input[1:]
			if m.Name == tool.InputEvent {
				return Input{Value: m.Payload, Question: m.Question, Person: m.Person}, nil
			}
		}
		var err error
		if r.input, r.last, err = r.NextMail(ctx, c, r.last); err != nil {
			return Input{}, err
		}
	}
}
