package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/fermata-ai/fermata/kvstore"
)

// later is the store of a process of a later version, which is made up: its
// heads have a member that today's version doesn't know, and one that a drive
// of it has taken has a version, too, that today's refuses. So a fleet may have
// processes of two versions side by side.
type later struct {
	kvstore.Store
	// wrote hears of each head that it has written, and whether it was raised.
	wrote func(session string, raised bool)

	mu    sync.Mutex
	known map[string]bool // sessions whose heads it raised, or may have
	epoch map[string]int  // of drives, by session, as it was read last
}

// laterVersion is that of heads which only the later version reads.
const laterVersion = 1000

// laterHead is what later knows of a head.
type laterHead struct {
	Version int         `json:"v"`
	Held    bool        `json:"held"`
	Epoch   int         `json:"epoch"`
	Later   *laterThing `json:"later"`
}

// laterThing is the member that today's version doesn't know.
type laterThing struct {
	Was int `json:"was,omitempty"` // today's version of the rest; zero: the head isn't raised
}

var heads = kvstore.Key("h")

// sessionOf returns the id of a head's session; empty: it isn't the key of one.
func sessionOf(key []byte) string {
	parts, err := kvstore.Parts(key)
	if err != nil || len(parts) != 2 || !bytes.HasPrefix(key, heads) {
		return ""
	}
	return parts[1]
}

// Apply implements [kvstore.Store].
func (l *later) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	raised := map[string]bool{} // by session, of the heads in b
	puts := append([]kvstore.Put(nil), b.Puts...)
	for i, p := range puts {
		id := sessionOf(p.Key)
		if id == "" {
			continue
		}
		var err error
		if puts[i].Value, raised[id], err = l.write(id, p.Value); err != nil {
			return 0, err
		}
	}
	b.Puts = puts
	r, err := l.Store.Apply(ctx, b)
	if err != nil && !errors.Is(err, kvstore.ErrUncertain) {
		return r, err
	}
	l.mu.Lock()
	for id, is := range raised {
		l.known[id] = l.known[id] || is // a drive may write it again without reading it
	}
	l.mu.Unlock()
	for id, is := range raised {
		if err == nil {
			l.wrote(id, is)
		}
	}
	return r, err
}

// write returns a head as it is stored, and whether that is in the newer form.
func (l *later) write(id string, value []byte) (stored []byte, raised bool, err error) {
	var h laterHead
	if err := json.Unmarshal(value, &h); err != nil {
		return nil, false, err
	}
	l.mu.Lock()
	takes := h.Held && h.Epoch > l.epoch[id]
	raised = takes || h.Later != nil && h.Later.Was > 0 || l.known[id]
	l.mu.Unlock()
	was := 0
	if raised {
		was, h.Version = h.Version, laterVersion
	}
	stored, err = edited(value, h.Version, &laterThing{was})
	return stored, raised, err
}

// read returns a head as today's version has it.
func (l *later) read(e kvstore.Entry) (kvstore.Entry, error) {
	id := sessionOf(e.Key)
	if id == "" {
		return e, nil
	}
	var h laterHead
	if err := json.Unmarshal(e.Value, &h); err != nil {
		return e, err
	}
	l.mu.Lock()
	l.epoch[id] = max(l.epoch[id], h.Epoch)
	l.mu.Unlock()
	if h.Version != laterVersion {
		return e, nil
	}
	value, err := edited(e.Value, h.Later.Was, h.Later)
	return kvstore.NewEntry(e.Key, value, e.Revision), err
}

func edited(head []byte, version int, t *laterThing) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(head, &members); err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	members["v"], members["later"] = fmt.Append(nil, version), text
	return json.Marshal(members)
}

// Get implements [kvstore.Store].
func (l *later) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	e, err := l.Store.Get(ctx, key)
	if err != nil {
		return e, err
	}
	return l.read(e)
}

// Scan implements [kvstore.Store].
func (l *later) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	p, err := l.Store.Scan(ctx, r)
	for i := range p.Entries {
		if err == nil {
			p.Entries[i], err = l.read(p.Entries[i])
		}
	}
	return p, err
}

// asLater returns the store of a process of the later version.
func asLater(kv kvstore.Store, wrote func(session string, raised bool)) *later {
	return &later{Store: kv, wrote: wrote, known: map[string]bool{},
		epoch: map[string]int{}}
}

// later returns the store of a process of the later version, which notes once
// of each session that it has written its head, and that it has raised it.
func (o *outside) later(kv kvstore.Store) kvstore.Store {
	var noted sync.Map
	return asLater(kv, func(session string, isRaised bool) {
		n := note{What: written, Process: o.process, Life: o.life, At: now(), Session: session}
		if isRaised {
			n.What = raised
		}
		if _, known := noted.LoadOrStore(session+" "+string(n.What), true); !known {
			o.write(n)
		}
	})
}

// versions judges what processes of two versions did to each other's sessions.
func (a *audit) versions(notes []note) {
	if !a.Versions {
		return
	}
	newer, seen := map[string]bool{}, map[string]bool{} // sessions
	old := map[string]bool{}
	for _, n := range notes {
		switch n.What {
		case raised:
			newer[n.Session], seen[n.Session] = true, true
		case written:
			seen[n.Session] = true
		case entered:
			if !n.Later && newer[n.Session] && !a.excused(n) {
				a.violation("a process of the older version has entered a body of a session in the newer "+
					"form: %+v", n)
			}
			if !n.Later {
				old[n.Session] = true
			}
		}
	}
	for id := range seen {
		e, err := a.kv.(*later).Store.Get(a.t.Context(), kvstore.Key("h", id))
		must(a.t, err)
		var h laterHead
		must(a.t, json.Unmarshal(e.Value, &h))
		if h.Later == nil || newer[id] && (h.Later.Was == 0 || h.Version != laterVersion) {
			a.violation("the head of session %s has lost what the newer version wrote: %.200s", id, e.Value)
		}
		if old[id] && newer[id] {
			a.upgraded++
		}
	}
}
