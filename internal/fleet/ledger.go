package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
)

// note is an entry of the ledger, which stands for the outside world: it
// survives every process, and has its own order.
type note struct {
	What    what
	Process string // which of the fleet
	Life    int    // of that process
	Later   bool   `json:",omitempty"` // it is of the later version
	At      instant
	From    instant `json:",omitzero"` // of trouble, or of a request: when it began
	Session string
	User    string `json:",omitempty"` // each session has its own, also of what is below it
	Call    string `json:",omitempty"`

	// Of a body that was entered, and of a Reconcile.
	Tool    string `json:",omitempty"` // of a request: what it asked for
	Key     string `json:",omitempty"` // for outside effects
	Token   string `json:",omitempty"` // of a body that waits for an answer by it
	Attempt int    `json:",omitempty"`
	Fence   int64  `json:",omitempty"` // the drive's
	// How long before the body was entered the caller of its run had left.
	Left  time.Duration `json:",omitempty"`
	Found int           `json:",omitempty"` // how many entries Reconcile found

	// Of a result.
	Status event.Status `json:",omitempty"`
	Output string       `json:",omitempty"` // of a request that failed: as what
}

type what string

const (
	entered    what = "entered"    // the body, which this is the first line of
	finished   what = "finished"   // the body, whose effect is complete
	raised     what = "raised"     // a head, to the newer form
	written    what = "written"    // a head, by the newer version
	troubled   what = "troubled"   // a process, which got no answer of the engine for a while
	starved    what = "starved"    // a process, which got no processor for a while
	failed     what = "failed"     // a request, by a fault
	reconciled what = "reconciled" // asked what became of a body, and answered
	shown      what = "shown"      // the result, by an event
)

// noteSize is that of every note, in bytes. It divides a page: a kill cuts a
// write only between two pages.
const noteSize = 1024

const ledgerFile = "ledger"

// ledger appends notes, each whole or not at all, from many processes.
type ledger struct{ file *os.File }

func openLedger(dir string) (ledger, error) {
	f, err := os.OpenFile(filepath.Join(dir, ledgerFile),
		os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return ledger{f}, err
}

func (l ledger) write(n note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if len(b) >= noteSize {
		return fmt.Errorf("a note of %d bytes: %s", len(b), b)
	}
	_, err = l.file.Write(append(b, bytes.Repeat([]byte{'\n'}, noteSize-len(b))...))
	return err
}

// reader reads a ledger as it grows.
type reader struct {
	dir string

	mu    sync.Mutex // guards notes
	notes []note
}

// all returns all notes so far, in their order.
func (r *reader) all() ([]note, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.Open(filepath.Join(r.dir, ledgerFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for b := make([]byte, noteSize); ; {
		if _, err := f.ReadAt(b, int64(len(r.notes)*noteSize)); err != nil ||
			b[noteSize-1] != '\n' {
			return r.notes, nil // the rest isn't there yet
		}
		var n note
		if err := json.Unmarshal(b, &n); err != nil {
			return nil, fmt.Errorf("the ledger has %q: %w", b, err)
		}
		r.notes = append(r.notes, n)
	}
}
