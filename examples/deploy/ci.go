package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/examples/internal/ci"
	"github.com/fermata-ai/fermata/examples/internal/stage"
)

// serveCI is the role of the CI server. It serves until one job is over, and ends.
func serveCI(ctx context.Context, _ []string) {
	done := make(chan struct{})
	var failed error // read after done
	server := stage.Must(ci.New(ctx, ci.Config{
		Pace: 400 * time.Millisecond,
		Answered: func(n, status int, answer string) {
			stage.Line("answered", fmt.Sprintf("delivery %d", n), "%d %s", status, answer)
		},
		Ended: func(err error) { failed = err; close(done) },
	}))
	defer server.Close()
	stage.Serve(ctx, server, done, func() {})
	stage.Check(failed)
}
