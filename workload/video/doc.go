// Package video is the workload video: some videos that play at once, each a TCP connection on which its bytes come as
// fast as they are shown.
//
// The source container has the videos, and sends each at its own rate, in messages of 1370 bytes (paper 004, section
// V.B.6); the sink plays them. Lengths and rates are drawn anew for each trial, the same for a trial in all stacks, and
// rates are scaled so that a video has 3 GB an hour on average. A video that ends is followed by the next draw.
//
// A player waits for a buffer and then shows what has come, in real time; where the next part has not come it stands
// still until there is a buffer again. The buffer is in time, of video, so that the rate of a video does not change
// when it begins. It begins with each trial.
//
// The paper that the distributions should come from, Abhari and Soraya, "Workload generation for YouTube" (Multimedia
// Tools and Applications 46(1), 2010), was not at hand. What is here is derived from other figures of those years: see
// the constants, each with its source.
package video
