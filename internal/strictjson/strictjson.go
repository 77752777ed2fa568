// Package strictjson is the one door through which JSON of the library's own
// comes in and goes out. Behind it stands encoding/json/v2, as a module for
// the Go of today; no other package of the core imports it.
//
// Goals:
//
//   - [Append] and [Read] are for records: structs that the library stores. A
//     record has the same bytes whenever it is written. What is read is what
//     some version wrote: a member that is there twice, is null, is missing,
//     or is named in another case, is an error. Members that this version
//     doesn't know are kept in a [Rest]. A json.RawMessage in a record goes
//     in and out byte for byte, with equal names, escapes, numbers such as
//     1.0e2 and white space as they are.
//   - [Parse] is for JSON of others that Go code is going to decode, such as a
//     model's arguments: it refuses what two readers might understand
//     differently, and says where. The tree that it makes is read again by
//     all that need the value, so that the text isn't.
//   - [Walk] is for a form that is no struct's, such as a message's parts, and
//     for trees whose equal names stay. The pieces that such a form is written
//     of, a string and a raw value, are in text.go.
//
// Not goals: types of the library's users (their arguments, results and
// states), which stay on encoding/json, since version 2 treats durations,
// numbers, nil and maps otherwise; streams; and speed beyond what a user
// feels.
package strictjson

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// tolerant are the options of every reading: the package finds equal names
// itself, since they are an error in some objects of a text and not in others,
// and invalid UTF-8 in a string becomes U+FFFD, as in encoding/json.
var tolerant = json.JoinOptions(
	jsontext.AllowDuplicateNames(true),
	jsontext.AllowInvalidUTF8(true),
	jsontext.PreserveRawStrings(true),
)
