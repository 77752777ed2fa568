package tool

import (
	"encoding/json"
	"time"
)

// Pause is one wait of one call, as it is listed. Its JSON is good for an
// inbox, or an HTTP API: times are as in RFC 3339, and empty fields are left
// out. It has all that the call's tool gave, Await.Data included, and no secret
// of fermata's own.
type Pause struct {
	ID        string          `json:"id"`
	Call      string          `json:"call"`
	Session   string          `json:"session"`
	User      string          `json:"user,omitempty"`
	Agent     string          `json:"agent,omitempty"` // of the session
	Tool      string          `json:"tool"`
	Number    int             `json:"number"` // of the call's pauses, from 1
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Await     Await           `json:"await,omitzero"` // zero in a pause that is not open
	Since     time.Time       `json:"since,omitzero"`
	Deadline  time.Time       `json:"deadline,omitzero"` // zero where there is none
	Beat      Beat            `json:"beat,omitzero"`     // zero: no heartbeat is due
	Progress  *Progress       `json:"progress,omitempty"`
	// Path leads to the session from the top of its tree, if it is a child: the
	// session that a user talks to comes first. The answer goes to Session.
	Path []PathStep `json:"path,omitempty"`
}

// UnmarshalJSON reads what Pause is encoded as. Await.Timeout follows from the
// deadline, and Await.Heartbeat from the beat.
func (p *Pause) UnmarshalJSON(b []byte) error {
	type plain Pause
	if err := json.Unmarshal(b, (*plain)(p)); err != nil {
		return err
	}
	p.Await.Timeout, p.Await.Heartbeat = 0, time.Duration(p.Beat.EveryMS)*time.Millisecond
	if !p.Deadline.IsZero() {
		p.Await.Timeout = p.Deadline.Sub(p.Since)
	}
	return nil
}

// Beat is when an outside job is to be heard of next, at the latest.
type Beat struct {
	EveryMS int64     `json:"every_ms"` // Await.Heartbeat, in milliseconds
	Due     time.Time `json:"due"`
}

// Progress tells how far a call is.
type Progress struct {
	Message  string          `json:"message,omitempty"`
	Fraction float64         `json:"fraction,omitempty"` // 0 to 1; 0: not known
	Data     json.RawMessage `json:"data,omitempty"`     // the tool's own
	At       time.Time       `json:"at,omitzero"`        // set by the runner
}
