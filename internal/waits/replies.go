package waits

import (
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// What a model reads. The members stand in the order of these fields.

// Slept is the reply of sleep.
type Slept struct {
	Success   bool    `json:"success"`
	Label     *string `json:"label"`
	Requested int64   `json:"requestedDurationMs"`
	Actual    int64   `json:"actualDurationMs"`
	Start     string  `json:"startTime"`
	End       string  `json:"endTime"`
}

// Created is the reply of create_wait_handle.
type Created struct {
	Success  bool            `json:"success"`
	ID       string          `json:"handleId"`
	Type     tool.WaitType   `json:"type"`
	Status   tool.WaitStatus `json:"status"`
	Start    string          `json:"startTime"`
	Timeout  *int64          `json:"timeout"` // in milliseconds
	Metadata json.RawMessage `json:"metadata"`
	Token    string          `json:"token,omitzero"` // of a hook
	URL      string          `json:"url,omitzero"`
}

// CreatedBy returns the reply that tells of a handle that was made.
func CreatedBy(w *tool.Wait, timeout time.Duration, url string) Created {
	c := Created{Success: true, ID: w.ID, Type: w.Type, Status: tool.WaitPending,
		Start: Time(w.Start), Metadata: orNull(w.Metadata), Token: w.Token, URL: url}
	if timeout > 0 {
		ms := MS(timeout)
		c.Timeout = &ms
	}
	return c
}

// Waited is the reply of wait_for.
type Waited struct {
	ID      string          `json:"handleId"`
	Type    tool.WaitType   `json:"type"`
	Status  tool.WaitStatus `json:"status"`
	Result  json.RawMessage `json:"result,omitzero"`
	Error   *string         `json:"error,omitzero"`
	Elapsed *int64          `json:"elapsedMs,omitzero"` // where the caller's patience was over
	// of the handle, up to its end or until now
	Operation      int64   `json:"operationElapsedMs"`
	OperationWords string  `json:"operationElapsedTime"`
	Waited         int64   `json:"waitedMs"`
	WaitedWords    string  `json:"waitedTime"`
	Start          string  `json:"startTime"`
	End            *string `json:"endTime"`
	// the latest that was told of it
	Progress json.RawMessage `json:"progress,omitzero"`
}

// WaitedFor returns the reply of a call that has waited for a handle since a
// time.
func WaitedFor(w *tool.Wait, since, now time.Time) Waited {
	took, waited := elapsed(w, now), between(since, now)
	r := Waited{ID: w.ID, Type: w.Type, Status: w.Status,
		Operation: MS(took), OperationWords: Duration(took),
		Waited: MS(waited), WaitedWords: Duration(waited), Start: Time(w.Start),
		Progress: w.Progress}
	r.Result, r.Error = outcome(w)
	if w.Ended() {
		end := Time(w.End)
		r.End = &end
	}
	return r
}

// elapsed returns how long a handle has been there, or was.
func elapsed(w *tool.Wait, now time.Time) time.Duration {
	if w.Ended() {
		now = w.End
	}
	return between(w.Start, now)
}

// between returns how long it is from one time to another: never less than
// nothing, as a clock may have been set back.
func between(from, to time.Time) time.Duration { return max(0, to.Sub(from)) }

// outcome returns what a handle came to: a result or an error.
func outcome(w *tool.Wait) (result json.RawMessage, why *string) {
	switch {
	case w.Status == tool.WaitCompleted:
		return orNull(w.Result), nil
	case w.Ended():
		return nil, &w.Error
	}
	return nil, nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// Several is the reply of wait_for_multiple.
type Several struct {
	Mode        Mode            `json:"mode"`
	Status      tool.WaitStatus `json:"status"`
	Error       *string         `json:"error,omitzero"` // with the status timeout
	Total       int             `json:"totalCount"`
	Completed   int             `json:"completedCount"`
	Failed      int             `json:"failedCount"` // those that timed out, too
	Pending     int             `json:"pendingCount"`
	Results     json.RawMessage `json:"results"`
	Waited      int64           `json:"waitedMs"`
	WaitedWords string          `json:"waitedTime"`
}

// one is a handle among several.
type one struct {
	Type         tool.WaitType   `json:"type"`
	Status       tool.WaitStatus `json:"status"`
	Result       json.RawMessage `json:"result,omitzero"`
	Error        *string         `json:"error,omitzero"`
	Elapsed      int64           `json:"elapsedMs"`
	ElapsedWords string          `json:"elapsedTime"`
}

// SeveralOf returns the reply of a call that has waited for several handles, and
// whether what it waits for has come. Its JSON has so many bytes at most: what
// is long in it is cut.
func SeveralOf(mode Mode, all []tool.Wait, since, now time.Time, most int) (s Several, met bool, _ error) {
	waited := between(since, now)
	s = Several{Mode: mode, Total: len(all), Waited: MS(waited), WaitedWords: Duration(waited)}
	for i := range all {
		switch w := &all[i]; {
		case w.Status == tool.WaitCompleted:
			s.Completed++
		case w.Ended():
			s.Failed++
		default:
			s.Pending++
		}
	}
	s.Status, met = mode.judge(&s, all)
	var err error
	s.Results, err = results(all, now, most)
	return s, met, err
}

// judge returns the status of a wait, and whether it is over.
func (m Mode) judge(s *Several, all []tool.Wait) (tool.WaitStatus, bool) {
	switch m {
	case ModeAny:
		if s.Completed > 0 {
			return tool.WaitCompleted, true
		}
		return tool.WaitFailed, s.Pending == 0
	case ModeRace:
		var first *tool.Wait
		for i := range all {
			if w := &all[i]; w.Ended() && (first == nil || w.End.Before(first.End)) {
				first = w
			}
		}
		if first == nil {
			return tool.WaitPending, false
		}
		if first.Status == tool.WaitCompleted {
			return tool.WaitCompleted, true
		}
		return tool.WaitFailed, true
	}
	return tool.WaitCompleted, s.Pending == 0
}

// results returns each handle by its id, in order.
func results(all []tool.Wait, now time.Time, most int) (json.RawMessage, error) {
	for {
		total, longest := 0, 0
		o := jsontree.New()
		for i := range all {
			took := elapsed(&all[i], now)
			r := one{Type: all[i].Type, Status: all[i].Status, Elapsed: MS(took),
				ElapsedWords: Duration(took)}
			r.Result, r.Error = outcome(&all[i])
			b, err := strictjson.Append(nil, r)
			if err != nil {
				return nil, err
			}
			total += len(b) + len(all[i].ID) + 4
			if n := len(r.Result); longest < n {
				longest = n
			}
			o.Set(all[i].ID, json.RawMessage(b))
		}
		if total <= most || longest < shortest {
			return o.Raw(), nil
		}
		cut := make([]tool.Wait, len(all))
		for i, w := range all {
			if len(w.Result) > longest/2 {
				w.Result = handles.CutJSON(w.Result, longest/2, handles.LeftOut)
			}
			cut[i] = w
		}
		all = cut
	}
}

// shortest is how long a result is that isn't cut.
const shortest = 64

// Ended is the reply of complete_wait_handle.
type Ended struct {
	Success      bool            `json:"success"`
	ID           string          `json:"handleId"`
	Type         tool.WaitType   `json:"type"`
	Status       tool.WaitStatus `json:"status"`
	Result       json.RawMessage `json:"result,omitzero"`
	Error        *string         `json:"error,omitzero"`
	Elapsed      int64           `json:"elapsedMs"`
	ElapsedWords string          `json:"elapsedTime"`
	Start        string          `json:"startTime"`
	End          string          `json:"endTime"`
}

// EndedBy returns the reply that tells that a handle was ended.
func EndedBy(w *tool.Wait) Ended {
	took := elapsed(w, w.End)
	r := Ended{Success: true, ID: w.ID, Type: w.Type, Status: w.Status,
		Elapsed: MS(took), ElapsedWords: Duration(took), Start: Time(w.Start), End: Time(w.End)}
	r.Result, r.Error = outcome(w)
	return r
}

// Reported is the reply of report_wait_handle.
type Reported struct {
	Success      bool            `json:"success"`
	ID           string          `json:"handleId"`
	Type         tool.WaitType   `json:"type"`
	Status       tool.WaitStatus `json:"status"`
	Progress     json.RawMessage `json:"progress"`
	Elapsed      int64           `json:"elapsedMs"`
	ElapsedWords string          `json:"elapsedTime"`
	Start        string          `json:"startTime"`
}

// ReportedOf returns the reply that tells that a handle's progress was noted.
func ReportedOf(w *tool.Wait, now time.Time) Reported {
	took := elapsed(w, now)
	return Reported{Success: true, ID: w.ID, Type: w.Type, Status: w.Status, Progress: w.Progress,
		Elapsed: MS(took), ElapsedWords: Duration(took), Start: Time(w.Start)}
}

// BegunReply is the reply of a call that has begun something beside the session.
type BegunReply struct {
	Async   bool            `json:"async"`
	ID      string          `json:"handleId"`
	Status  tool.WaitStatus `json:"status"`
	Message string          `json:"message"`
	// StepCount is of a workflow: how many steps its list has.
	StepCount *int `json:"stepCount,omitzero"`
}

// JSON returns a reply as JSON.
func JSON(reply any) (json.RawMessage, error) { return strictjson.Append(nil, reply) }
