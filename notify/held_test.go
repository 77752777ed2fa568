package notify_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// scans counts the looks at an engine.
type scans struct {
	kvstore.Store
	n atomic.Int64
}

func (s *scans) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	s.n.Add(1)
	return s.Store.Scan(ctx, r)
}

// While another process has the right to send for a session, and may be dead,
// the work looks once in each poll, also where the session stands in the index
// twice. It sends once that process's lease is over.
func TestWhatAnotherSendsIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.paused()
		time.Sleep(2 * time.Second)
		must(t, r.answer(tool.ReasonApproval))
		_, err := r.carryOn()
		must(t, err)
		if n := r.keys("O"); n != 3 { // one of them is of a reminder
			t.Fatalf("the session stands in the index %d times", n)
		}
		other := hold.Of(r.another())
		for shard := range core.NoticeShards {
			due, _, _, err := other.DueNotices(t.Context(), shard, nil)
			must(t, err)
			for _, d := range due[:min(1, len(due))] {
				_, err := other.BeginSending(t.Context(), d, time.Second)
				must(t, err)
			}
		}
		kv := &scans{Store: kvtest.Shared(r.engine)}
		r.store = session.NewStore(kv, &session.Options{Notify: r.told})
		var to outside
		const polls = 20
		r.work(polls*time.Second, &to, nil)
		if n := kv.n.Load(); len(to.all) != 0 || n > 2*polls*core.NoticeShards {
			t.Errorf("it has sent %d, and looked %d times", len(to.all), n)
		}
		r.work(10*time.Minute, &to, nil)
		if len(to.lines()) != 3 {
			t.Errorf("sent is %q", to.lines())
		}
	})
}

// What a session that a newer program has written has to tell stays due where a
// program can't read it, and is told as soon as one can.
func TestWhatANewerProgramTellsStaysDue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.paused()
		head := kvstore.Key("h", chat)
		is, err := r.engine.Get(t.Context(), head)
		must(t, err)
		put := func(value []byte) {
			_, err := r.engine.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: head, Value: value}}})
			must(t, err)
		}
		put(bytes.Replace(is.Value, []byte(`"v":1`), []byte(`"v":99`), 1))
		var to outside
		r.work(time.Minute, &to, nil)
		if len(to.lines()) > 0 {
			t.Fatalf("an older program tells %v", to.lines())
		}
		put(is.Value)
		r.work(time.Second, &to, nil)
		if len(to.lines()) != 2 {
			t.Errorf("told is %v", to.lines())
		}
		r.sound()
	})
}
