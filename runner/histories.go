package runner

import (
	"container/list"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// histories keeps the histories that drives have read, for the next drives of
// the same sessions in this process. Stored messages never change, so a history
// that was read before is the beginning of the one that is stored now, whichever
// process has driven the session meanwhile. Those that were used last are kept,
// up to a number of bytes.
//
// A drive takes a history out, appends to it, and puts it back when it ends. So
// it always has one owner.
type histories struct {
	most int // bytes; it doesn't change

	mu     sync.Mutex // guards the rest; held over nothing that waits
	by     map[string]*list.Element
	recent list.List // of *heldHistory, the one that was put back last in front
	bytes  int
}

// past is the beginning of a session's history, as it is stored.
type past struct {
	generation int
	created    time.Time // of the session: an id may come again, long after a deletion
	messages   []llm.Message
	bytes      int // of the messages in the store
}

type heldHistory struct {
	session string
	past
}

// messageOverhead is about what a message takes in memory beside its bytes.
const messageOverhead = 256

func (p *past) cost() int { return p.bytes + messageOverhead*len(p.messages) }

// of reports whether it is of the session that a head is of, and not longer.
func (p *past) of(st *session.State) bool {
	return len(p.messages) > 0 && len(p.messages) <= st.Messages &&
		p.generation == st.Generation && p.created.Equal(st.Created)
}

// take takes out what is kept of a session's history.
func (hs *histories) take(st *session.State) (p past) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	at := hs.by[st.ID]
	if at == nil {
		return past{}
	}
	if p = hs.remove(at).past; !p.of(st) {
		return past{}
	}
	return p
}

// put keeps a history. The caller no longer appends to it.
func (hs *histories) put(session string, p past) {
	if len(p.messages) == 0 || p.cost() > hs.most {
		return
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.drop(session)
	if hs.by == nil {
		hs.by = map[string]*list.Element{}
	}
	hs.by[session] = hs.recent.PushFront(&heldHistory{session, p})
	for hs.bytes += p.cost(); hs.bytes > hs.most; {
		hs.remove(hs.recent.Back())
	}
}

// forget drops what is kept of a session.
func (hs *histories) forget(session string) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.drop(session)
}

// drop is forget under the lock.
func (hs *histories) drop(session string) {
	if at := hs.by[session]; at != nil {
		hs.remove(at)
	}
}

func (hs *histories) remove(at *list.Element) *heldHistory {
	held := hs.recent.Remove(at).(*heldHistory)
	delete(hs.by, held.session)
	hs.bytes -= held.cost()
	return held
}
