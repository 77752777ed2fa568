package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"net/http"
	"strings"
	"time"
)

// sums is a SignatureCheck by HMAC-SHA256, with each of a sender's secrets.
type sums struct {
	by      Signed
	hashes  []hash.Hash
	matches func(sum []byte) bool // one of the signatures
}

func newSums(by Signed, secrets [][]byte, before string, matches func([]byte) bool) *sums {
	s := &sums{by: by, matches: matches}
	for _, secret := range secrets {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(before))
		s.hashes = append(s.hashes, h)
	}
	return s
}

func (s *sums) Write(p []byte) (int, error) {
	for _, h := range s.hashes {
		h.Write(p)
	}
	return len(p), nil
}

func (s *sums) Signed() (Signed, error) {
	for _, h := range s.hashes {
		if s.matches(h.Sum(nil)) {
			return s.by, nil
		}
	}
	return Signed{}, unverified("no signature on it is by one of the secrets")
}

// texts returns secrets that are any text.
func (k *keyring) texts() [][]byte {
	var all [][]byte
	for _, secret := range k.current() {
		all = append(all, []byte(secret))
	}
	return all
}

func (v *gitHub) Stream(h http.Header, _ time.Time) (SignatureCheck, error) {
	text, err := gitHubText(h)
	if err != nil {
		return nil, err
	}
	return newSums(Signed{Sender: v.keys.Sender}, v.keys.texts(), "",
		func(sum []byte) bool { return isHex(text, sum) }), nil
}

func (v *stripe) Stream(h http.Header, now time.Time) (SignatureCheck, error) {
	at, signatures, err := v.fields(h, now)
	if err != nil {
		return nil, err
	}
	return newSums(Signed{Sender: v.keys.Sender}, v.keys.texts(), at+".", func(sum []byte) bool {
		for _, signature := range signatures {
			if isHex(signature, sum) {
				return true
			}
		}
		return false
	}), nil
}

// Stream checks signatures of the form v1: ed25519 goes over its message twice.
func (v *standardWebhooks) Stream(h http.Header, now time.Time) (SignatureCheck, error) {
	f, err := v.fields(h, now)
	if err != nil {
		return nil, err
	}
	var secrets [][]byte
	for _, secret := range v.keys.current() {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, symmetricPrefix))
		if err == nil && !strings.HasPrefix(secret, publicPrefix) {
			secrets = append(secrets, raw)
		}
	}
	matches := func(sum []byte) bool {
		for text := range strings.SplitSeq(f.signatures, " ") {
			encoded, ok := strings.CutPrefix(text, "v1,")
			given, err := base64.StdEncoding.Strict().DecodeString(encoded)
			if ok && err == nil && hmac.Equal(given, sum) {
				return true
			}
		}
		return false
	}
	before := f.id + "." + f.at + "."
	return newSums(Signed{Sender: v.keys.Sender, Delivery: f.id}, secrets, before, matches), nil
}

// Stream begins the check of each verifier that can do so.
func (all senders) Stream(h http.Header, now time.Time) (SignatureCheck, error) {
	var checks anySender
	for _, v := range all {
		s, ok := v.(StreamVerifier)
		if !ok {
			continue
		}
		check, err := s.Stream(h, now)
		switch {
		case err == nil:
			checks = append(checks, check)
		case !errors.Is(err, ErrUnverified):
			return nil, err
		}
	}
	if len(checks) == 0 {
		return nil, unverified("no sender's signature is on it")
	}
	return checks, nil
}

// anySender is the check of several senders.
type anySender []SignatureCheck

func (all anySender) Write(p []byte) (int, error) {
	for _, check := range all {
		if n, err := check.Write(p); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

func (all anySender) Signed() (by Signed, err error) {
	for _, check := range all {
		if by, err = check.Signed(); err == nil || !errors.Is(err, ErrUnverified) {
			return by, err
		}
	}
	return Signed{}, err
}
