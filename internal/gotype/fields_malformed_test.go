//go:build !goexperiment.jsonv2

package gotype

// malformed has tags with names that can't be, which go vet refuses. The field
// then has its Go name. The coming encoding/json reads them otherwise.
var malformed = []any{
	struct {
		//lint:ignore SA5008 it is what encoding/json makes of it that is tested
		A int `json:"bad\"name"`
		//lint:ignore SA5008 it is what encoding/json makes of it that is tested
		G int `json:"a\\b"`
	}{},
}
