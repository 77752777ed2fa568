package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

func TestNewRefuses(t *testing.T) {
	if _, err := webhook.New(nil, webhook.Config{}); err == nil {
		t.Error("a nil runner is taken")
	}
	rn, err := runner.New(nil, session.NewStore(kvstore.NewMemory(), nil), nil)
	must(t, err)
	defer rn.Close()
	for _, c := range []webhook.Config{{Path: "hooks"}, {MaxBody: -1}, {ReadTimeout: -1}} {
		if _, err := webhook.New(rn, c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	s := newSite(t, siteOptions{})
	token := s.paused()
	for _, path := range []string{token + "/", token + "/edit", token + "/fail/now",
		"fail/", "x/y"} {
		s.post(path, `{}`).is(t, http.StatusNotFound, "no_such_path")
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete,
		http.MethodOptions} {
		r := s.send(s.request(method, token, nil))
		r.is(t, http.StatusMethodNotAllowed, "method")
		if r.header.Get("Allow") != http.MethodPost {
			t.Errorf("%s: Allow is %q", method, r.header.Get("Allow"))
		}
	}
}

func TestBadTokens(t *testing.T) {
	s := newSite(t, siteOptions{})
	token := s.paused()
	for _, bad := range []string{"x", "f1.", "f1.e30.AAAA", token + "A", token[:len(token)-1],
		"f3" + token[2:], "f1.." + token[3:], token[3:]} {
		r := s.post(bad, `{"url":"a"}`)
		r.is(t, http.StatusUnauthorized, "bad_token")
		if r.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("a 401 without WWW-Authenticate")
		}
	}
	s.post("", `{"url":"a"}`).is(t, http.StatusUnauthorized, "no_token")
	s.post("fail", `{}`).is(t, http.StatusUnauthorized, "no_token")
	s.post(token, `{"url":"a"}`).accepted(t, false)
}

func TestTokenOfAnotherStore(t *testing.T) {
	theirs, ours := newSite(t, siteOptions{}), newSite(t, siteOptions{})
	ours.paused()
	ours.post(theirs.paused(), `{"url":"a"}`).is(t, http.StatusUnauthorized, "bad_token")
}

// A token may permit less than those that tools get.
func TestTokenThatPermitsLess(t *testing.T) {
	s := newSite(t, siteOptions{})
	full, err := s.rn.ReadToken(t.Context(), s.paused())
	must(t, err)
	full.Permits = []tool.Permit{tool.PermitProgress}
	token := s.sign(full)
	s.post(token+"/progress", `{"fraction":0.5}`).accepted(t, false)
	s.post(token, `{"url":"a"}`).is(t, http.StatusForbidden, "not_allowed")
	s.post(token+"/fail", `{}`).is(t, http.StatusForbidden, "not_allowed")
	s.post(token+"/cancel", `{}`).is(t, http.StatusForbidden, "not_allowed")
}

// sign returns a token as the runner makes it, with the store's own key.
func (s *site) sign(claims runner.Token) string {
	s.t.Helper()
	return s.signed("f2.", claims)
}

// signed returns a token of claims in the form that a prefix names.
func (s *site) signed(prefix string, claims any) string {
	s.t.Helper()
	keys, err := s.store.TokenKeys(s.t.Context())
	must(s.t, err)
	text, err := json.Marshal(claims)
	must(s.t, err)
	signed := prefix + base64.RawURLEncoding.EncodeToString(text)
	mac := hmac.New(sha256.New, keys[len(keys)-1].Secret)
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

const deadline = time.Hour

// clock is a clock that a test moves.
type clock struct{ now time.Time }

func (c *clock) options() *session.Options {
	c.now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &session.Options{Now: func() time.Time { return c.now }}
}

func TestTooLate(t *testing.T) {
	t.Run("the pause", func(t *testing.T) {
		var c clock
		s := newSite(t, siteOptions{session: c.options(), timeout: true})
		url := s.paused()
		c.now = c.now.Add(deadline)
		s.post(url, `{"url":"a"}`).is(t, http.StatusGone, "expired")
		if got := s.call(); got.Settled != event.Expired {
			t.Errorf("the call is settled as %q", got.Settled)
		}
	})
	t.Run("the token", func(t *testing.T) {
		var c clock
		s := newSite(t,
			siteOptions{session: c.options(), runner: runner.Options{TokenLifetime: time.Minute}})
		url := s.paused()
		c.now = c.now.Add(time.Minute)
		s.post(url, `{"url":"a"}`).is(t, http.StatusGone, "token_expired")
	})
	t.Run("the session", func(t *testing.T) {
		s := newSite(t, siteOptions{})
		url := s.paused()
		must(t, s.rn.Delete(t.Context(), chat, "ada"))
		s.post(url, `{"url":"a"}`).is(t, http.StatusGone, "deleted")
		s.post(url+"/progress", `{"fraction":0.5}`).is(t, http.StatusGone, "deleted")
		s.post(url+"/cancel", `{}`).is(t, http.StatusGone, "deleted")
	})
}

func TestRefusedByTheAuthorizer(t *testing.T) {
	s := newSite(t,
		siteOptions{
			runner: runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
				if op.Actor == "webhook" {
					return errors.New("a secret reason")
				}
				return nil
			}}})
	r := s.post(s.paused(), `{"url":"a"}`)
	r.is(t, http.StatusForbidden, "not_allowed")
	if r.Detail != "it is not allowed" {
		t.Errorf("the sender is told %q", r.Detail)
	}
}

// A sender whose answer could not be stored is asked to try again, and its next
// try succeeds.
func TestTheStoreFails(t *testing.T) {
	for name, fault := range map[string]func(int) faultkv.Fault{
		"nothing is written": faultkv.FailAt, "the disk is full": faultkv.FullFrom} {
		t.Run(name, func(t *testing.T) {
			var store *faultkv.Injector
			s := newSite(t, siteOptions{wrap: func(kv kvstore.Store) kvstore.Store {
				store = faultkv.New(kv)
				return store.Store
			}})
			url := s.paused()
			store.Add(fault(store.Applies() + 1))
			r := s.post(url, `{"url":"a"}`)
			r.is(t, http.StatusServiceUnavailable, "unavailable")
			if r.header.Get("Retry-After") == "" || r.Detail != "it could not be taken now" {
				t.Errorf("Retry-After is %q, and the sender is told %q",
					r.header.Get("Retry-After"), r.Detail)
			}
			store.Heal()
			s.post(url, `{"url":"a"}`).accepted(t, false)
		})
	}
	t.Run("the acknowledgement is lost", func(t *testing.T) {
		var store *faultkv.Injector
		s := newSite(t, siteOptions{wrap: func(kv kvstore.Store) kvstore.Store {
			store = faultkv.New(kv)
			return store.Store
		}})
		url := s.paused()
		store.Add(faultkv.LoseAt(store.Applies() + 1))
		s.post(url, `{"url":"a"}`).accepted(t, false)
		s.post(url, `{"url":"a"}`).accepted(t, true)
	})
}

func TestStatus(t *testing.T) {
	for err, want := range map[error]int{
		nil:                                 200,
		runner.ErrBadToken:                  401,
		runner.ErrTokenExpired:              410,
		runner.ErrNotAllowed:                403,
		runner.ErrInvalidProgress:           422,
		runner.ErrLongReason:                422,
		runner.ErrUnknownAgent:              500,
		runner.ErrClosed:                    503,
		session.ErrInvalidID:                422,
		core.CheckID("user", ""):            422,
		&llm.Error{Kind: llm.ErrInvalid}:    502,
		&llm.Error{Kind: llm.ErrAuth}:       502,
		&llm.Error{Kind: llm.ErrOverloaded}: 503,
		session.ErrWrongUser:                403,
		session.ErrOtherSender:              403,
		webhook.ErrUnverified:               401,
		session.ErrDeleted:                  410,
		session.ErrUnknownSession:           404,
		session.ErrUnknownCall:              404,
		session.ErrUnknownPause:             404,
		session.ErrNotPaused:                409,
		session.ErrOtherGate:                409,
		session.ErrPauseRequired:            409,
		session.ErrAmbiguousKey:             409,
		session.ErrPending:                  409,
		session.ErrMessageConflict:          409,
		session.ErrNotYetKnown:              503,
		session.ErrBusy:                     503,
		session.ErrFenced:                   503,
		session.ErrCorrupt:                  500,
		session.ErrNewerVersion:             503,
		kvstore.ErrUncertain:                503,
		kvstore.ErrClosed:                   503,
		errors.Join(session.ErrSettled, kvstore.ErrUncertain): 503, // it may have been taken before
		context.Canceled:                               503,
		&session.ConflictError{}:                       409,
		&session.PayloadError{Err: errors.New("no")}:   422,
		&session.PauseRequiredError{}:                  409,
		&session.SettledError{Status: event.Done}:      410,
		&session.SettledError{Status: event.Cancelled}: 410,
		&session.SettledError{Status: event.Expired}:   410,
		&http.MaxBytesError{Limit: 1}:                  413,
		errors.New("an unknown error"):                 503,
	} {
		if err != nil {
			err = fmt.Errorf("wrapped: %w", err)
		}
		if got := webhook.Status(err); got != want {
			t.Errorf("Status(%v) = %d, want %d", err, got, want)
		}
	}
}

// A record that an answer needs beside the session's head can't be read just
// now. The sender is asked to try again; the response does not claim that
// anything is damaged.
func TestStoreCannotBeReadForAWhile(t *testing.T) {
	var reads *failingReads
	s := newSite(t, siteOptions{wrap: func(kv kvstore.Store) kvstore.Store {
		reads = &failingReads{Exclusive: kv.(kvstore.Exclusive)}
		return reads
	}})
	url := s.paused()
	s.restart() // which forgets the schema
	reads.prefix = kvstore.Key("s")
	r := s.post(url, `{"url":"a"}`)
	r.is(t, http.StatusServiceUnavailable, "unavailable")
	if r.header.Get("Retry-After") == "" {
		t.Error("a 503 without Retry-After")
	}
	reads.prefix = nil
	s.post(url, `{"url":"a"}`).accepted(t, false)
}

// failingReads is an engine that can't read keys that begin with prefix.
type failingReads struct {
	kvstore.Exclusive
	prefix []byte
}

func (f *failingReads) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if f.prefix != nil && bytes.HasPrefix(key, f.prefix) {
		return kvstore.Entry{}, errors.New("the disk is away")
	}
	return f.Exclusive.Get(ctx, key)
}
