package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// system is one of those that are compared.
type system interface {
	// prepare makes what the system needs in an empty database.
	prepare(ctx context.Context, url string) error
	// front is the part that takes messages and answers.
	front(ctx context.Context, url string, w *wire) (front, error)
	// work carries on what is due, until ctx ends.
	work(ctx context.Context, url string, w *wire, tell func(news)) error
}

// front is what a web server does. After either call returns, what it was given
// is durable.
type front interface {
	send(ctx context.Context, session string) error
	answer(ctx context.Context, session, pause string) error
	close()
}

// news is what a worker tells of a session: that it waits for the answer to a
// pause, or has said its last word, or has come to another end.
type news struct {
	Session string
	Pause   string `json:",omitempty"` // empty: it is done
	Failed  string `json:",omitempty"`
}

var systems = map[string]system{
	"fermata": fermata{},
	"river":   riverJobs{},
	"dbos":    dbosFlows{},
}

func named(name string) (system, error) {
	s, ok := systems[name]
	if !ok {
		return nil, fmt.Errorf("no system %q", name)
	}
	return s, nil
}

// What all of them store.
var (
	asked    = "Run the tests, please."
	call     = json.RawMessage(`{"name":"job","arguments":{"text":"x"}}`)
	result   = json.RawMessage(`{"result":"all tests passed"}`)
	lastWord = "Done."
)

// median returns the middle one of some numbers, which it sorts.
func median(all []float64) float64 { return quantile(all, 0.5) }

// quantile returns the least number below which, or at which, so great a share
// of them is.
func quantile(all []float64, share float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(share*float64(len(all))))]
}
