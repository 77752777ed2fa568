package runner_test

import (
	"testing"

	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// What is accepted by a commit whose acknowledgement gets lost is told as
// accepted, and only then as a duplicate: also if the commit comes to pass
// later, between two reads of the one who looks for it.
func TestAcknowledgementIsLost(t *testing.T) {
	duplicate := func(res *runner.Resumed, err error) (bool, error) {
		if err != nil {
			return false, err
		}
		return res.Receipts[0].Duplicate, nil
	}
	for name, scene := range map[string]func(*testing.T) (*rig, func() (bool, error)){
		"an answer": func(t *testing.T) (*rig, func() (bool, error)) {
			var n counter
			r, p := deployed(t, &n)
			return r, func() (bool, error) {
				return duplicate(r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2"))))
			}
		},
		"a cancellation": func(t *testing.T) (*rig, func() (bool, error)) {
			var n counter
			r, p := deployed(t, &n)
			return r, func() (bool, error) {
				receipt, err := r.Cancel(t.Context(), chat, p.ID, user, "")
				return receipt.Duplicate, err
			}
		},
		"an event": func(t *testing.T) (*rig, func() (bool, error)) {
			var n counter
			r, p := bought(t, nil, &n, tool.AnyOf("done"))
			return r, func() (bool, error) {
				return duplicate(r.Deliver(t.Context(), chat, sends(p.Call, "done", "1")))
			}
		},
		"an answer that is kept": func(t *testing.T) (*rig, func() (bool, error)) {
			r := newRig(t, byKey(tool.Await{}), nil)
			return r, func() (bool, error) {
				return duplicate(r.ResumeByKey(t.Context(), job1, runner.Complete("", "ci", text("v2")),
					&runner.Keep{}))
			}
		},
	} {
		for how, fault := range map[string]func(int) faultkv.Fault{
			"lost": faultkv.LoseAt, "later": faultkv.DeferAt,
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				r, act := scene(t)
				r.faults.Add(fault(r.faults.Applies() + 1))
				struck := r.faults.Struck()
				for _, want := range []bool{false, true} {
					if got, err := act(); err != nil || got != want {
						t.Errorf("it is told as a duplicate: %v, %v; want %v", got, err, want)
					}
				}
				if r.faults.Struck() != struck+1 {
					t.Error("no acknowledgement was lost")
				}
				r.sound()
			})
		}
	}
}
