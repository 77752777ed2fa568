package session_test

import (
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

// A copy that isn't finished is used for nothing, neither read nor written, since
// the next Copy would delete what is written. Once it is finished, the same store
// uses it.
func TestCopyThatIsNotFinishedIsRefused(t *testing.T) {
	from, to := kvtest.Shared(kvstore.NewMemory()), kvtest.Shared(kvstore.NewMemory())
	_, err := session.NewStore(from, nil).TokenKeys(t.Context())
	must(t, err)
	_, err = kvstore.Copy(t.Context(), from, to, &kvstore.CopyOptions{Ahead: true})
	must(t, err)
	s := session.NewStore(to, nil)
	if _, err = s.TokenKeys(t.Context()); !errors.Is(err, kvstore.ErrUnfinished) {
		t.Errorf("a call that writes: %v", err)
	}
	if _, err = s.Load(t.Context(), "chat"); !errors.Is(err, kvstore.ErrUnfinished) {
		t.Errorf("a call that reads: %v", err)
	}
	_, err = kvstore.Copy(t.Context(), from, to, nil)
	must(t, err)
	if _, err = s.Load(t.Context(), "chat"); !errors.Is(err, session.ErrUnknownSession) {
		t.Errorf("once it is finished: %v", err)
	}
}
