package webhook

import (
	"net/http"
	"strings"
	"time"
)

// Stripe returns a verifier of Stripe's scheme: the header Stripe-Signature,
// with a time and one or several signatures of the form v1. A secret is what
// Stripe shows, "whsec_" included.
//
// The header has no id of the delivery. That of the event stands in the body.
func Stripe(s Secrets) (Verifier, error) {
	keys, err := newKeyring(s, longEnough)
	if err != nil {
		return nil, err
	}
	return &stripe{keys}, nil
}

type stripe struct{ keys *keyring }

const stripeSignature = "Stripe-Signature"

func (v *stripe) Verify(h http.Header, body []byte, now time.Time) (Signed, error) {
	at, signatures, err := v.fields(h, now)
	if err != nil {
		return Signed{}, err
	}
	before := []byte(at + ".")
	for _, secret := range v.keys.current() {
		sum := mac(secret, before, body)
		for _, signature := range signatures {
			if isHex(signature, sum) {
				return Signed{Sender: v.keys.Sender}, nil
			}
		}
	}
	return Signed{}, unverified("no signature on it is by one of the secrets")
}

// fields returns the time and the signatures of a request, if the time is near
// enough to now.
func (v *stripe) fields(h http.Header, now time.Time) (string, []string, error) {
	header, err := only(h, stripeSignature)
	if err != nil {
		return "", nil, err
	}
	at, signatures, ok := stripeFields(header)
	if !ok {
		return "", nil, unverified("its signature is not of the scheme's form")
	}
	return at, signatures, v.keys.fresh(at, now)
}

// stripeFields returns the time and the signatures of a header, in which
// schemes that are not known are passed over.
func stripeFields(header string) (at string, signatures []string, ok bool) {
	if len(header) > maxSignature {
		return "", nil, false
	}
	for field := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(field, "=")
		switch {
		case name == "t" && at != "":
			return "", nil, false // which of the two is signed?
		case name == "t":
			at = value
		case name == "v1":
			signatures = append(signatures, value)
		}
	}
	return at, signatures, at != "" && len(signatures) > 0
}
