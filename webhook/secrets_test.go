package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/webhook"
)

func made2[T any](v T, _ error) T { return v }

// Times are compared with the handler's clock, both ways.
func TestTolerance(t *testing.T) {
	for tolerance, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Hour: time.Hour,
		time.Nanosecond: 0} {
		s := secrets(symmetric)
		s.Tolerance = tolerance
		v := made(webhook.StandardWebhooks(s))(t)
		for off, good := range map[time.Duration]bool{-want - time.Second: false, -want: true, 0: true,
			want: true, want + time.Second: false} {
			_, err := v.Verify(signedBy(symmetricBy), []byte(vectorBody), vectorNow.Add(off))
			if (err == nil) != good {
				t.Errorf("tolerance %v, %v off: %v", tolerance, off, err)
			}
		}
	}
}

// Secrets change without a restart. One that can't be used is passed over, is
// told of once, and never verifies anything.
func TestSecretsAreRotated(t *testing.T) {
	var logs safeBuffer
	current := []string{symmetric}
	v := made(webhook.StandardWebhooks(webhook.Secrets{Sender: "payments",
		Current: func() []string { return current }, Logger: slog.New(slog.NewTextHandler(&logs, nil))}))(t)
	check := func(signature string, good bool, all ...string) {
		t.Helper()
		current = all
		_, err := v.Verify(signedBy(signature), []byte(vectorBody), vectorNow)
		if (err == nil) != good || err != nil && !errors.Is(err, webhook.ErrUnverified) {
			t.Errorf("with %d secrets: %v", len(all), err)
		}
	}
	check(symmetricBy, true, symmetric)
	check(symmetricBy, true, public, symmetric)
	check(publicBy, true, public, symmetric)
	check(symmetricBy, false, public)
	check(symmetricBy, false)
	const bad = "whsec_%%%%"
	check(symmetricBy, true, bad, "", symmetric)
	empty := hmac.New(sha256.New, nil)
	fmt.Fprintf(empty, "%s.%d.%s", vectorID, vectorAt, vectorBody)
	byNothing := "v1," + base64.StdEncoding.EncodeToString(empty.Sum(nil))
	for _, none := range []string{"", "whsec_", "whpk_", bad} {
		check(byNothing, false, none)
	}
	if got := logs.String(); strings.Count(got, "passed over") != 1 || strings.Contains(got, bad) ||
		strings.Contains(got, symmetric) {
		t.Errorf("the log says\n%s", got)
	}
}

// A verifier with a secret that can't be used isn't made, and the error shows
// nothing of the secret.
func TestBadSecretsAreRefused(t *testing.T) {
	short := "whsec_" + base64.StdEncoding.EncodeToString([]byte("23 bytes are one fewer.."[:23]))
	for name, s := range map[string]webhook.Secrets{
		"no sender":          {Current: webhook.Fixed(symmetric)},
		"no function":        {Sender: "payments"},
		"no secret":          secrets(),
		"an empty one":       secrets(symmetric, ""),
		"a short one":        secrets(short),
		"no base64":          secrets("whsec_?!?!?!?!?!?!?!?!?!?!?!?!?!?!?!?!?!"),
		"a private key":      secrets(private),
		"half a public key":  secrets(public[:20]),
		"too many":           secrets(symmetric, symmetric, symmetric, symmetric, symmetric, symmetric, symmetric, symmetric, symmetric),
		"negative tolerance": {Sender: "payments", Current: webhook.Fixed(symmetric), Tolerance: -1},
	} {
		v, err := webhook.StandardWebhooks(s)
		if err == nil || v != nil {
			t.Errorf("%s is taken", name)
			continue
		}
		if s.Current == nil {
			continue
		}
		for _, secret := range s.Current() {
			if len(secret) > 6 && strings.Contains(err.Error(), secret[6:]) {
				t.Errorf("%s: the error has it: %v", name, err)
			}
		}
	}
	for _, short := range []string{"", "23 bytes are one fewer."} {
		if v, err := webhook.GitHub(secrets(short)); err == nil || v != nil {
			t.Errorf("GitHub takes %q", short)
		}
		if v, err := webhook.Stripe(secrets(short)); err == nil || v != nil {
			t.Errorf("Stripe takes %q", short)
		}
	}
	for _, none := range [][]webhook.Verifier{nil, {nil}} {
		if v, err := webhook.Senders(none...); err == nil || v != nil {
			t.Errorf("Senders takes %v", none)
		}
	}
}
