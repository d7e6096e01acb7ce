"""Text policy, scores and calibrated maps that every search of skillbus shares."""
