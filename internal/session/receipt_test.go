package session_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/session"
)

// A receipt in JSON reports whether it is a duplicate, and why it was refused; it
// can be read back, but for what kind of error that was.
func TestReceiptsAsJSON(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123_000_000, time.UTC)
	for want, r := range map[string]session.Receipt{
		`{"call":"call_x","pause":2,"kind":"decision","hash":"h","by":"<ada>","delivery":"d-1","at":"2026-03-01T12:00:00.123Z","decided":"approved"}`: {
			Call: "call_x", Pause: 2, Kind: session.KindDecision, Hash: "h", Actor: "<ada>",
			Delivery: "d-1", At: at, Decided: "approved",
		},
		`{"call":"call_x","pause":1,"kind":"complete","at":"2026-03-01T12:00:00.123Z","fate":"superseded","duplicate":true}`: {
			Call: "call_x", Pause: 1, Kind: session.KindComplete, At: at,
			Fate: session.Superseded, Duplicate: true,
		},
		`{"call":"call_x","pause":0,"by":"ada","error":"session: the answer to pause call_x.1 does not fit: it is \"<5>\""}`: {
			Call: "call_x", Actor: "ada", Err: &session.PayloadError{Pause: "call_x.1",
				Err: errors.New(`it is "<5>"`)},
		},
	} {
		got, err := r.MarshalJSON()
		if err != nil || string(got) != want {
			t.Errorf("it is %s, %v, not %s", got, err, want)
		}
		whole, err := json.Marshal([]session.Receipt{r}) // which escapes what HTML would
		var again []session.Receipt
		if err == nil {
			err = json.Unmarshal(whole, &again)
		}
		if err != nil || len(again) != 1 {
			t.Fatalf("%s is read as %v, %v", whole, again, err)
		}
		text := func(err error) string {
			if err == nil {
				return ""
			}
			return err.Error()
		}
		if diff := cmp.Diff(r, again[0], cmp.Comparer(func(a, b error) bool {
			return text(a) == text(b)
		})); diff != "" {
			t.Errorf("read again it differs (-want +got):\n%s", diff)
		}
	}
}
