package runner

import (
	"context"
	"math/rand/v2"
)

// left looks for the sessions of an agent that drives have left: those that died
// with an earlier process, and those that ended in this one and could not store
// it. They come before what is due, since they were begun earlier.
func (w *worker) left(ctx context.Context, agent string) error {
	after := ""
	for {
		due, more, err := w.rn.store.Left(ctx, agent, after)
		if err != nil || len(due) == 0 {
			return err
		}
		after = due[len(due)-1].Session
		rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
		for _, e := range due {
			w.found(ctx, e)
		}
		if !more {
			return nil
		}
	}
}
