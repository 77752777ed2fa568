package wide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// ID names a handle. Scope is what [session.WaitScope] makes.
type ID struct {
	Scope, Name string
	// Made, if set, is when the handle was created: one that has had its name since
	// isn't meant.
	Made time.Time
}

// Handle is the record of a handle. What was read is never changed.
type Handle struct {
	Version  int             `json:"v"`
	Scope    string          `json:"scope"`
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Metadata json.RawMessage `json:"metadata,omitzero"`
	Created  time.Time       `json:"created"`
	Deadline time.Time       `json:"deadline,omitzero"`
	Maker    Maker           `json:"maker,omitzero"`
	Progress *Progress       `json:"progress,omitzero"`
	Permits  *Permits        `json:"permits,omitzero"`
	End      *End            `json:"end,omitzero"`
	Upkeep   Upkeep          `json:"upkeep"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Maker is who made a handle. The same call makes it once.
type Maker struct {
	Session string `json:"session,omitzero"`
	Call    string `json:"call,omitzero"`
	Actor   string `json:"by,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Progress is the latest that was told of a handle.
type Progress struct {
	Value json.RawMessage `json:"value"`
	At    time.Time       `json:"at"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// End is how a handle has ended.
type End struct {
	Status string          `json:"status"`
	Result json.RawMessage `json:"result,omitzero"`
	Error  string          `json:"error,omitzero"`
	Actor  string          `json:"by,omitzero"`
	At     time.Time       `json:"at"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// The statuses, as they are stored.
const (
	Pending   = string(tool.WaitPending)
	Completed = string(tool.WaitCompleted)
	Failed    = string(tool.WaitFailed)
	TimedOut  = string(tool.WaitTimeout)
)

// timerType is the type of a handle whose deadline completes it.
const timerType = string(tool.TimerWait)

// Upkeep is what the store keeps of a handle for itself.
type Upkeep struct {
	Commit string    `json:"commit"`         // of the last change
	Due    time.Time `json:"due,omitzero"`   // where it stands among what is due
	Waits  bool      `json:"waits,omitzero"` // a session has registered
	Tells  bool      `json:"tells,omitzero"` // sessions are to be told something
	// What is due has failed so many times, and is tried again at that time.
	Tries int       `json:"tries,omitzero"`
	Retry time.Time `json:"retry,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// ID returns the handle's.
func (h *Handle) ID() ID { return ID{Scope: h.Scope, Name: h.Name} }

// is reports whether the handle is the one of that time; zero: of any.
func (h *Handle) is(made time.Time) bool { return made.IsZero() || h.Created.Equal(made) }

// Status returns the handle's.
func (h *Handle) Status() string {
	if h.End == nil {
		return Pending
	}
	return h.End.Status
}

// Waited returns how long the handle was open, or is.
func (h *Handle) Waited(now time.Time) time.Duration {
	if h.End != nil {
		now = h.End.At
	}
	return max(0, now.Sub(h.Created))
}

// overdue reports whether the handle is open, and its deadline has passed.
func (h *Handle) overdue(now time.Time) bool {
	return h.End == nil && !h.Deadline.IsZero() && !h.Deadline.After(now)
}

var errIncomplete = errors.New("it is incomplete")

func (h *Handle) check() error {
	switch {
	case h.Version > session.Version:
		return session.ErrNewerVersion
	case h.Scope == "" || h.Name == "" || h.Type == "" || h.Created.IsZero() || h.Upkeep.Commit == "":
		return errIncomplete
	case h.End != nil && (h.End.At.IsZero() || !ended[h.End.Status]):
		return fmt.Errorf("its end, %q, is incomplete", h.End.Status)
	case h.Permits != nil:
		return h.Permits.check()
	}
	return nil
}

var ended = map[string]bool{Completed: true, Failed: true, TimedOut: true}

func (h *Handle) liesAt(key []byte) bool { return string(key) == string(handleKey(h.ID())) }

// record is what has a shape to be checked.
type record interface {
	check() error
	liesAt(key []byte) bool
}

// read decodes the record under key. Without one the revision is zero.
func (s *Store) read(ctx context.Context, key []byte, v record) (kvstore.Revision, error) {
	e, err := s.kv.Get(ctx, key)
	if errors.Is(err, kvstore.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return e.Revision, decode(e, v)
}

// decode reads a record, and holds it to be what its key says.
func decode(e kvstore.Entry, v record) error {
	err := strictjson.Read(e.Value, v)
	if err == nil {
		err = v.check()
	}
	switch {
	case errors.Is(err, session.ErrNewerVersion):
		return fmt.Errorf("%w: %q", err, e.Key)
	case err == nil && !v.liesAt(e.Key):
		err = errors.New("it is of something else")
	}
	if err != nil {
		return fmt.Errorf("%w: %q: %w", session.ErrCorrupt, e.Key, err)
	}
	return nil
}

func encode(v any) ([]byte, error) { return strictjson.Append(nil, v) }
