package gotype

import (
	"strings"
	"testing"
)

// A schema takes whole numbers in other forms than encoding/json does.
func TestWholeNumbersArePlain(t *testing.T) {
	for form, want := range map[string]string{
		"1": "1", "-0": "0", "0.000": "0", "0e9": "0", "1.0": "1", "1e3": "1000", "1E+3": "1000",
		"15e-1": "", "150e-1": "15",
		"0.1e1": "1", "-1.5e1": "-15", "1e1000": "1" + strings.Repeat("0", 1000),
		"100": "100", "0.5": "",
	} {
		if got, ok := plainInteger(form); got != want || ok != (want != "") {
			t.Errorf("%s became %q", form, got)
		}
	}
}
