package llmtest

import (
	"context"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// APIKey is a key that means nothing, for [Provider].New: no error may tell it.
const APIKey = "sk-fermata-means-nothing"

// adapter is a model under test.
type adapter struct{ llm.Model }

// collect puts the message together, as the runner does, and holds the stream
// to its rules.
func (a adapter) collect(t testing.TB, req llm.Request) (llm.Message, llm.Finish, error) {
	t.Helper()
	return a.collectIn(t.Context(), t, req)
}

func (a adapter) collectIn(ctx context.Context, t testing.TB, req llm.Request) (llm.Message,
	llm.Finish, error) {
	t.Helper()
	var c llm.Collector
	finished := false
	for ev, err := range a.Generate(ctx, req) {
		if finished {
			t.Errorf("after its Finish, the stream has %v, %v", ev, err)
		}
		if err != nil {
			m, _, _ := c.Message()
			return m, llm.Finish{}, err
		}
		_, finished = ev.(llm.Finish)
		if err := c.Add(ev); err != nil {
			return llm.Message{}, llm.Finish{}, err
		}
	}
	return c.Message()
}
