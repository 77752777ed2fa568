package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// list shows all sessions. A runner needs no agent for that.
func list(ctx context.Context, store *session.Store, w io.Writer) error {
	rn, err := runner.New(nil, store, nil)
	if err != nil {
		return err
	}
	defer rn.Close()
	n := 0
	for s, err := range rn.Sessions(ctx, session.Filter{}, user) {
		if err != nil {
			return err
		}
		n++
		state := string(s.Finish)
		if state == "" {
			state = "has work left"
		}
		fmt.Fprintf(w, "%-16s %s, %s, since %s\n", s.ID, state, count(s.Messages, "message"),
			s.Created.Local().Format(time.DateTime))
		for p, err := range rn.Pending(ctx, session.PauseFilter{Session: s.ID}, user) {
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%16s %s\n", "", waits(p))
		}
	}
	if n == 0 {
		fmt.Fprintln(w, "There are no sessions.")
	}
	return nil
}
