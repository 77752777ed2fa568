package webhook

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"golang.org/x/time/rate"
)

// Secrets say by which secrets one sender's signatures are checked.
type Secrets struct {
	// Sender is a name of yours for who signs with these secrets, which no user
	// can have: it may be the actor in receipts. A tool gives the same name as
	// Await.Sender, to take answers of that sender alone.
	Sender string
	// Current returns the secrets that are good now: one, or several while one
	// replaces another. It is asked for each request, so that they can be
	// changed without a restart, by any number of goroutines.
	//
	// What it returns when the verifier is made must be usable: a secret that is
	// empty, shorter than 24 bytes or not in the scheme's form is an error then.
	// Later such a one is passed over, and the log says so.
	Current func() []string
	// Tolerance is how far a request's time may be from the handler's, in the
	// past and in the future; default 5 minutes. GitHub signs no time.
	Tolerance time.Duration
	Logger    *slog.Logger // default slog.Default; no secret is ever logged
}

// Fixed returns secrets that don't change.
func Fixed(secrets ...string) func() []string {
	return func() []string { return secrets }
}

const (
	defaultTolerance = 5 * time.Minute
	// minSecret is how long a secret is at least, in bytes: as the
	// specification of Standard Webhooks has it.
	minSecret = 24
	// maxSecrets is how many secrets of a sender are looked at: each is work
	// that anyone can ask for.
	maxSecrets = 8
	// maxSignature is how long a header with signatures may be, in bytes. That
	// is over a dozen of the longest.
	maxSignature = 2048
)

// keyring has the secrets of one sender, for one scheme.
type keyring struct {
	Secrets
	usable   func(secret string) error // what is wrong with it, in the scheme
	complain rate.Sometimes            // since anyone may make requests
}

// newKeyring returns what is wrong with s, and puts the defaults in.
func newKeyring(s Secrets, usable func(secret string) error) (*keyring, error) {
	switch {
	case s.Sender == "":
		return nil, errors.New("webhook: Secrets.Sender is empty: name who signs with them")
	case s.Current == nil:
		return nil, errors.New("webhook: Secrets.Current is nil: a verifier needs a secret; " +
			"for one that does not change take Fixed")
	case s.Tolerance < 0:
		return nil, errors.New("webhook: Secrets.Tolerance is negative; zero is the default")
	}
	if s.Tolerance == 0 {
		s.Tolerance = defaultTolerance
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	all := s.Current()
	if len(all) == 0 || len(all) > maxSecrets {
		return nil, fmt.Errorf("webhook: sender %s has %d secrets, and may have 1 to %d",
			s.Sender, len(all), maxSecrets)
	}
	for i, secret := range all {
		if err := usable(secret); err != nil {
			return nil, fmt.Errorf("webhook: secret %d of sender %s %w", i+1, s.Sender, err)
		}
	}
	return &keyring{Secrets: s, usable: usable,
		complain: rate.Sometimes{Interval: time.Minute}}, nil
}

// current returns the secrets that are good now. One that is not is passed
// over: the sender's other secrets are not to suffer from it.
func (k *keyring) current() []string {
	all := k.Current()
	if len(all) > maxSecrets {
		k.complain.Do(func() {
			k.Logger.Error("a sender of webhooks has too many secrets; the first count",
				"sender", k.Sender, "secrets", len(all), "most", maxSecrets)
		})
		all = all[:maxSecrets]
	}
	good := make([]string, 0, len(all))
	for i, secret := range all {
		if err := k.usable(secret); err != nil {
			k.complain.Do(func() {
				k.Logger.Error("a secret of a sender of webhooks is passed over",
					"sender", k.Sender, "secret", i+1, "error", err)
			})
			continue
		}
		good = append(good, secret)
	}
	return good
}

// longEnough refuses the secrets of schemes that take any text.
func longEnough(secret string) error {
	if len(secret) < minSecret {
		return fmt.Errorf("has %d bytes; at least %d are needed", len(secret), minSecret)
	}
	return nil
}

// fresh refuses a time in Unix seconds that is too far from now. Only the one
// form of a number is taken that signers write: what is signed is the header's
// text, and a check reads the number.
func (k *keyring) fresh(text string, now time.Time) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return unverified("its time is not a number of seconds")
	}
	// Compared as numbers: the difference of far times would not fit a Duration.
	if tolerance := int64(k.Tolerance / time.Second); n < now.Unix()-tolerance ||
		n > now.Unix()+tolerance {
		return unverified("its time is too far from now")
	}
	return nil
}
